"""The 17 additional tasks of the paper, in the files that their authors publish."""

import dataclasses

from adapter_bert_tf.data.delimited import Quotes
from adapter_bert_tf.data.tables import CSV, FOLDERS, PLAIN_TSV, Layout
from adapter_bert_tf.data.task import ALL, DEV, TEST, TRAIN, Split, TaskDefinition

_UTF8 = Layout(CSV, encoding="utf-8", delimiter=",")
_LATIN = Layout(CSV, encoding="latin-1", delimiter=",")


def _single(
    name: str,
    files: tuple[str, ...],
    text: str,
    label: str,
    labels: tuple[str, ...],
    sizes: tuple[int, int, int],
    layout: Layout = _UTF8,
    **more,
) -> TaskDefinition:
    """Describes a task in one file, which is split into the paper's sizes with a fixed seed."""
    splits = {ALL: Split(files, layout, label)}
    return TaskDefinition(name, text, labels=labels, splits=splits, sizes=sizes, **more)


# The published file, in which quotes are text.
_NEWS = dataclasses.replace(
    PLAIN_TSV,
    header=(
        "id",
        "title",
        "url",
        "publisher",
        "category",
        "story",
        "hostname",
        "timestamp",
    ),
    skips_short_lines=True,
)
# A subset of it that is split already and was written with quotes around titles.
_NEWS_SPLIT = dataclasses.replace(
    PLAIN_TSV, header=("category", "title"), quotes=Quotes.ACROSS_LINES
)
_POLITICAL = ("political_social_media.csv", "Political-media-DFE.csv")
_POLITICAL_SIZES = (4000, 500, 500)
_PROGRESSIVE = ("progressive-tweet-sentiment.csv",)
_PROGRESSIVE_SIZES = (927, 116, 116)

ADDITIONAL = (
    TaskDefinition(
        "20newsgroups",
        text="text",
        labels=(
            "alt.atheism",
            "comp.graphics",
            "comp.os.ms-windows.misc",
            "comp.sys.ibm.pc.hardware",
            "comp.sys.mac.hardware",
            "comp.windows.x",
            "misc.forsale",
            "rec.autos",
            "rec.motorcycles",
            "rec.sport.baseball",
            "rec.sport.hockey",
            "sci.crypt",
            "sci.electronics",
            "sci.med",
            "sci.space",
            "soc.religion.christian",
            "talk.politics.guns",
            "talk.politics.mideast",
            "talk.politics.misc",
            "talk.religion.misc",
        ),
        splits={
            ALL: Split(
                ("20news-bydate.tar.gz",), Layout(FOLDERS, encoding="latin-1"), label="label"
            )
        },
        sizes=(15076, 1885, 1885),
    ),
    _single(
        "airline",
        ("Tweets.csv", "Airline-Sentiment-2-w-AA.csv"),
        "text",
        "airline_sentiment",
        ("negative", "neutral", "positive"),
        (11712, 1464, 1464),
    ),
    _single(
        "corporate_messaging",
        ("Corporate-messaging-DFE.csv",),
        "text",
        "category",
        ("Action", "Dialogue", "Exclude", "Information"),
        (2494, 312, 312),
        _LATIN,
    ),
    _single(
        "disasters",
        ("socialmedia-disaster-tweets-DFE.csv",),
        "text",
        "choose_one",
        ("Not Relevant", "Relevant"),
        (8688, 1086, 1086),
        _LATIN,
        dropped=("Can't Decide",),
    ),
    _single(
        "economic_news_relevance",
        ("Full-Economic-News-DFE-839861.csv",),
        "text",
        "relevance",
        ("no", "yes"),
        (6392, 799, 800),
        _LATIN,
        dropped=("not sure",),
    ),
    _single(
        "emotion",
        ("text_emotion.csv",),
        "content",
        "sentiment",
        (
            "anger",
            "boredom",
            "empty",
            "enthusiasm",
            "fun",
            "happiness",
            "hate",
            "love",
            "neutral",
            "relief",
            "sadness",
            "surprise",
            "worry",
        ),
        (32000, 4000, 4000),
        dataclasses.replace(_UTF8, header=("sentiment", "content")),
    ),
    _single(
        "global_warming",
        ("tweet_global_warming.csv", "1377884570_tweet_global_warming.csv"),
        "tweet",
        "existence",
        ("No", "Yes"),
        (3380, 422, 423),
        _LATIN,
        aliases={"N": "No", "Y": "Yes"},
        dropped=("NA", "N/A", ""),
    ),
    _single(
        "political_audience",
        _POLITICAL,
        "text",
        "audience",
        ("constituency", "national"),
        _POLITICAL_SIZES,
        _LATIN,
    ),
    _single(
        "political_bias",
        _POLITICAL,
        "text",
        "bias",
        ("neutral", "partisan"),
        _POLITICAL_SIZES,
        _LATIN,
    ),
    _single(
        "political_message",
        _POLITICAL,
        "text",
        "message",
        (
            "attack",
            "constituency",
            "information",
            "media",
            "mobilization",
            "other",
            "personal",
            "policy",
            "support",
        ),
        _POLITICAL_SIZES,
        _LATIN,
    ),
    _single(
        "primary_emotions",
        ("primary-plutchik-wheel-DFE.csv",),
        "sentence",
        "emotion",
        (),
        (2019, 252, 253),
        _LATIN,
        classes=18,
    ),
    _single(
        "progressive_opinion",
        _PROGRESSIVE,
        "tweet",
        "q2_*tweet",
        (),
        _PROGRESSIVE_SIZES,
        classes=3,
    ),
    _single(
        "progressive_stance",
        _PROGRESSIVE,
        "tweet",
        "q1_*target",
        (),
        _PROGRESSIVE_SIZES,
        classes=4,
    ),
    _single(
        "us_economic_performance",
        ("us-economic-newspaper.csv",),
        "text",
        "relevance",
        ("no", "yes"),
        (3961, 495, 496),
        _LATIN,
        dropped=("not sure",),
    ),
    _single(
        "customer_complaints",
        ("Consumer_Complaints.csv", "complaints.csv"),
        "Consumer complaint narrative",
        "Issue",
        (),
        (146667, 18333, 18334),
        classes=157,
    ),
    TaskDefinition(
        "news_aggregator",
        text="title",
        labels=("b", "e", "m", "t"),
        splits={ALL: Split(("newsCorpora.csv",), _NEWS, "category")}
        | {
            name: Split((f"{file}.txt",), _NEWS_SPLIT, "category")
            for name, file in ((TRAIN, "train"), (DEV, "valid"), (TEST, "test"))
        },
        sizes=(338349, 42294, 42294),
    ),
    _single(
        "sms_spam",
        ("SMSSpamCollection",),
        "text",
        "label",
        ("ham", "spam"),
        (4459, 557, 558),
        dataclasses.replace(PLAIN_TSV, header=("label", "text")),
    ),
)
