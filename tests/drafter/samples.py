"""What a small drafter is trained on: answers of the embedded model to prompts of one kind."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.models.load import LoadedModel
from engine.types import SamplingParams
from tests.schedules import Job, run

TOPICS = (
    *("rain", "volcanoes", "bread", "bicycles", "the moon", "honey", "trains", "glass", "rivers"),
    *("chess", "salt", "clocks", "tea", "bridges", "owls", "paper", "wind", "coffee", "maps"),
    *("snow", "music", "gold", "ships", "cheese", "stars", "horses", "forests", "kites", "lamps"),
    *("soap", "whales", "deserts", "violins", "ice", "roses", "ants", "coal", "cotton", "lakes"),
    *("wheels", "mirrors", "dolphins", "sugar", "castles", "thunder", "spiders", "wool", "islands"),
)
QUESTIONS = (
    "Explain what {} is in a few sentences.",
    "List three facts about {}.",
    "Write a short paragraph about {}.",
    "Why is {} useful or interesting?",
    "Write the beginning of a story about {}.",
)
HELD_OUT = 6
"""Topics, the last ones, that are never trained on."""

TOKENS = 80
ROWS = 12


@dataclass(frozen=True)
class Sample:
    """A prompt's tokens and the target's greedy answer to it."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.prompt + self.answer


def prompts(model: LoadedModel, topics: tuple[str, ...]) -> list[tuple[int, ...]]:
    asked = [question.format(topic) for topic in topics for question in QUESTIONS]
    chats = ([{"role": "user", "content": question}] for question in asked)
    return [tuple(model.tokenizer.chat(chat)) for chat in chats]


def training(model: LoadedModel, file: Path) -> list[Sample]:
    """The samples in `file`, which is filled first where it isn't there: minutes, on two cores."""
    if not file.is_file():
        wanted = prompts(model, TOPICS[:-HELD_OUT])
        made: list[Sample] = []
        for start in range(0, len(wanted), ROWS):
            part = wanted[start : start + ROWS]
            jobs = [Job(prompt, TOKENS, SamplingParams(), 0, None) for prompt in part]
            rows = run(model, jobs, ROWS)
            made += [Sample(row.request.prompt, tuple(row.tokens)) for row in rows]
            print(f"answers: {len(made)} of {len(wanted)}", flush=True)
        file.write_text("".join(json.dumps(asdict(sample)) + "\n" for sample in made))
    lines = map(json.loads, file.read_text().splitlines())
    return [Sample(tuple(line["prompt"]), tuple(line["answer"])) for line in lines]
