// Asks a model by TF Serving's REST protocol, and shows what it answers.
// Whatever comes from users or from the model becomes text nodes, never HTML.

const WAIT = 250; // Milliseconds after the last key, before the tasks are asked.
const RETRY = 2000;
const MOST_TASKS = 32; // More rows than this may be more than a server takes at a time.
const MOST_LABELS = 6;

const at = (id) => document.getElementById(id);

function make(name, className, ...children) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

// The model.

let about;

async function start() {
  at("summary").textContent = "waiting for the model …";
  try {
    about = await fetchJson("about.json");
  } catch (error) {
    tell(error.message);
    setTimeout(start, RETRY);
    return;
  }
  tell("");
  const { model, base, tasks, signatures } = about;
  document.title = `${model} · playground`;
  at("model").textContent = model;
  at("summary").textContent = `${tasks.length} task${tasks.length > 1 ? "s" : ""}${base ? ` on ${base}` : ""}`;
  const onTexts = textTasks();
  at("texts").hidden = !onTexts.length;
  at("questions").hidden = onTexts.length === tasks.length;
  at("filter").hidden = onTexts.length <= MOST_TASKS;
  at("second").hidden = !signatures.serving_default.inputs.includes("text_pair");
  const pairs = onTexts.filter((task) => task.pair).map((task) => task.name);
  at("second-for").textContent = pairs.length ? `for ${pairs.slice(0, 4).join(", ")}${pairs.length > 4 ? ", …" : ""}` : "";
  showTexts([]);
  (onTexts.length ? at("text") : at("context")).focus();
}

const textTasks = () => about.tasks.filter((task) => task.shown !== "answer");

async function fetchJson(path, body) {
  let response;
  try {
    response = await fetch(path, body && { method: "POST", body: JSON.stringify(body) });
  } catch {
    throw new Error("The playground does not answer. Is it still running?");
  }
  const answer = await response.json().catch(() => ({ error: `status ${response.status}` }));
  if (!response.ok || answer.error) throw new Error(answer.error ?? `status ${response.status}`);
  return answer;
}

function tell(problem) {
  at("problem").textContent = problem;
  at("problem").hidden = !problem;
}

// Sends a request, and shows its time and a curl line for it. Returns the outputs by name.
async function ask(signature, inputs, footer) {
  const taken = about.signatures[signature].inputs;
  const given = Object.fromEntries(Object.entries(inputs).filter(([name]) => taken.includes(name)));
  const body = { inputs: given };
  if (signature !== "serving_default") body.signature_name = signature;
  const path = `/v1/models/${encodeURIComponent(about.model)}:predict`;
  const started = performance.now();
  const { outputs } = await fetchJson(path, body);
  showRequest(footer, performance.now() - started, path, body);
  // TF Serving leaves the name out if there is a single output.
  const [name] = about.signatures[signature].outputs;
  return Array.isArray(outputs) ? { [name]: outputs } : outputs;
}

function showRequest(footer, milliseconds, path, body) {
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  const line = `curl -d '${quoted}' ${about.address ?? location.origin}${path}`;
  const copy = make("button", "", "Copy");
  copy.type = "button";
  copy.onclick = async () => {
    await navigator.clipboard.writeText(line);
    copy.textContent = "Copied";
  };
  const shown = make("code", "", line);
  shown.tabIndex = 0; // All of a long line is shown while it has the focus.
  footer.replaceChildren(make("time", "", `${milliseconds.toFixed(0)} ms`), shown, copy);
  footer.hidden = false;
}

// Texts.

const rowsOf = (outputs) =>
  outputs[Object.keys(outputs)[0]].map((_, row) =>
    Object.fromEntries(Object.entries(outputs).map(([name, values]) => [name, values[row]])),
  );

async function askTexts() {
  const text = at("text").value.toWellFormed();
  const pair = at("second").hidden ? "" : at("text_pair").value.toWellFormed();
  const tasks = shownTasks();
  if (!text.trim()) {
    at("text-request").hidden = true;
    return showTexts([]);
  }
  if (about.signatures.all && tasks.length === textTasks().length) {
    const outputs = await ask("all", { text: [text], text_pair: [pair] }, at("text-request"));
    return showTexts(rowsOf(rowsOf(outputs)[0]));
  }
  const same = (value) => tasks.map(() => value);
  const inputs = { text: same(text), text_pair: same(pair), task: tasks.map((task) => task.name) };
  const rows = rowsOf(await ask("serving_default", inputs, at("text-request")));
  showTexts(rows.map((row, i) => ({ ...row, task: tasks[i].name })));
}

function shownTasks() {
  const wanted = at("wanted").value.trim().toLowerCase();
  const found = textTasks().filter((task) => task.name.toLowerCase().includes(wanted));
  at("filtered").textContent = `${Math.min(found.length, MOST_TASKS)} of ${textTasks().length} shown`;
  return found.slice(0, MOST_TASKS);
}

let last = [];
const open = new Set(); // Names of the tasks all of whose labels are shown.

function showTexts(rows) {
  last = rows;
  const byName = new Map(rows.map((row) => [row.task, row]));
  at("answers").replaceChildren(...shownTasks().map((task) => card(task, byName.get(task.name))));
}

function card(task, row) {
  const found = make("article", "", make("h2", "", make("span", "", task.name)));
  found.dataset.task = task.name;
  if (!row) {
    const kind = task.shown === "value" ? "a value" : `${task.labels.length} labels`;
    found.append(make("span", "faint", kind));
  } else if (row.error && !answered(task, row)) {
    found.append(make("p", "wrong", row.error));
  } else {
    found.append(...(task.shown === "value" ? valueRows(task, row) : labelRows(task, row)));
    if (row.error) found.append(make("p", "faint", row.error));
  }
  return found;
}

// A row that is refused has the outputs "" and 0.
function answered(task, row) {
  return task.shown === "value" ? row.value !== 0 : row.probabilities.some((each) => each > 0);
}

function labelRows(task, row) {
  const oneOf = Boolean(row.label);
  const labels = task.labels.map((label, i) => ({ label, share: row.probabilities[i] }));
  for (const each of labels) each.best = oneOf ? each.label === row.label : each.share >= 0.5;
  if (labels.length <= MOST_LABELS) return labels.map(bar);
  labels.sort((a, b) => b.share - a.share);
  const all = open.has(task.name);
  const more = make("button", "more", all ? "fewer" : `${labels.length - MOST_LABELS} more`);
  more.type = "button";
  more.onclick = () => {
    if (all) open.delete(task.name);
    else open.add(task.name);
    showTexts(last);
  };
  return [...labels.slice(0, all ? labels.length : MOST_LABELS).map(bar), more];
}

function bar({ label, share, best }) {
  const name = make("span", "", label);
  name.title = label;
  return make("div", best ? "row best" : "row", name, track(share), make("span", "", percent(share)));
}

function track(share) {
  const inner = make("div");
  inner.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  return make("div", "track", inner);
}

// The largest and the smallest value so far of each task, as nobody says on which scale it is.
const scales = new Map();

function valueRows(task, { value }) {
  const [low, high] = scales.get(task.name) ?? [0, 1];
  const scale = [Math.min(low, Math.floor(value)), Math.max(high, Math.ceil(value))];
  scales.set(task.name, scale);
  const share = (value - scale[0]) / (scale[1] - scale[0]);
  const name = make("span", "faint", `${scale[0]} to ${scale[1]}`);
  return [make("div", "row best", name, track(share), make("span", "", value.toFixed(2)))];
}

// While a request is under way, at most one more waits, which is about what was typed last.
let timer, busy, again;

async function typed() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  at("answers").classList.add("stale");
  try {
    await askTexts();
    tell("");
  } catch (error) {
    tell(error.message);
  }
  at("answers").classList.remove("stale");
  busy = false;
  if (again) {
    again = false;
    typed();
  }
}

for (const id of ["text", "text_pair", "wanted"])
  at(id).addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(typed, WAIT);
  });

// Questions.

at("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const question = at("question").value.toWellFormed();
  const context = at("context").value.toWellFormed();
  if (!question.trim() || !context.trim()) {
    at("found").replaceChildren(make("p", "wrong", "Give a context, and a question about it."));
    return;
  }
  const tasks = about.tasks.filter((task) => task.shown === "answer");
  const same = (value) => tasks.map(() => value);
  const inputs = { question: same(question), context: same(context), task: tasks.map((task) => task.name) };
  at("found").classList.add("stale");
  try {
    const rows = rowsOf(await ask("answer", inputs, at("question-request")));
    at("found").replaceChildren(...rows.map((row, i) => answerCard(tasks[i], row, context)));
    tell("");
  } catch (error) {
    tell(error.message);
  }
  at("found").classList.remove("stale");
});

function answerCard(task, row, context) {
  const score = make("span", "faint", row.error ? "" : percent(row.score));
  const found = make("article", "", make("h2", "", make("span", "", row.answer || "no answer"), score));
  found.dataset.task = task.name;
  if (about.tasks.length > 1) found.append(make("span", "faint", task.name));
  if (row.error) found.append(make("p", "wrong", row.error));
  // Places are counted in bytes of UTF-8.
  const bytes = new TextEncoder().encode(context);
  const text = (from, to) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.slice(from, to));
  const parts = [text(0, row.start), text(row.end)];
  const answer = row.end > row.start ? [make("mark", "", text(row.start, row.end))] : [];
  const shown = make("div", "context", parts[0], ...answer, parts[1]);
  found.append(shown);
  queueMicrotask(() => answer[0]?.scrollIntoView({ block: "nearest" }));
  return found;
}

start();
