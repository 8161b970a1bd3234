"""The compose file, by the rules of the Compose Specification that it touches.

`docker compose config` says the same where there is one.
"""

import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

FOLDER = pathlib.Path(__file__).parents[1] / "serving"
FILE = FOLDER / "docker-compose.yml"

# A part of the specification: what a service may say, and of which type.
_SERVICE = {"image": str, "ports": list, "volumes": list, "environment": dict, "command": list}
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")
_PORT = re.compile(r"(\d{1,5}):(\d{1,5})")
_IMAGE = re.compile(r"[a-z0-9./-]+:(?!latest)[\w.-]+(@sha256:[0-9a-f]{64})?")


def _config(**variables: str) -> dict:
    """Returns the only service, with variables filled in as Compose does."""
    text = _VARIABLE.sub(lambda match: variables.get(match[1], match[2]), FILE.read_text())
    assert "$" not in text.split("services:")[1]
    loaded = yaml.safe_load(text)
    assert loaded.keys() == {"services"}
    (service,) = loaded["services"].values()
    return service


def test_a_service_says_what_the_specification_knows():
    service = _config()
    for name, value in service.items():
        assert isinstance(value, _SERVICE[name]), name
    assert all(isinstance(value, str) for value in service["environment"].values())
    assert all(isinstance(value, str) for value in service["command"])
    assert {match[1] for match in map(_PORT.fullmatch, service["ports"])} == {"8500", "8501"}


def test_the_image_has_a_version():
    assert _IMAGE.fullmatch(_config()["image"])
    pinned = f"tensorflow/serving:2.19.1@sha256:{'0' * 64}"
    assert _config(IMAGE=pinned)["image"] == pinned


@pytest.mark.parametrize("model", ["bert", "other"])
def test_what_is_mounted_is_what_the_server_is_told(model):
    service = _config(MODEL=model)
    volumes = [volume.split(":") for volume in service["volumes"]]
    assert all(mode == "ro" for *_, mode in volumes)
    places = {inside: outside for outside, inside, _ in volumes}
    assert places[f"/models/{model}"] == f"../models/{model}"
    assert service["environment"]["MODEL_NAME"] == model
    (flag,) = (each for each in service["command"] if "=" in each)
    assert (FOLDER / places[flag.split("=")[1]]).is_file()


def test_compose_itself_takes_the_file():
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            done = subprocess.run([*command, "version"], capture_output=True)
            if done.returncode == 0:
                check = [*command, "-f", str(FILE), "config", "--quiet"]
                assert subprocess.run(check, capture_output=True).returncode == 0
                return
    pytest.skip("no docker compose")
