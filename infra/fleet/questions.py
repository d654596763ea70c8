"""The questions: what each is called, and what is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from infra.fleet.plan_store import HERE, PlanStore


class Question(NamedTuple):
    """``name`` is of the command line and, with ``.sql``, of the file that asks it; ``nothing`` is
    said where there are no rows."""

    name: str
    title: str
    nothing: str = "no plan tells"

    def with_step(self, step: str) -> Question:
        """Return the question with a step's size in its title."""
        return self._replace(title=self.title.format(step=step))

    @property
    def file(self) -> Path:
        """The text that is asked."""
        return HERE / f"{self.name}.sql"


QUESTIONS = (
    Question("nodes", "Nodes that lack memory now, by the last plan of each, most waiting first"),
    Question("worth", "What {step} more is worth now on each node, by its last plan"),
    Question("saved", "What SPREDS saved in the period, by the curves of each window"),
    Question(
        "teams", "What teams lost and gained in the period against the sizes from before SPREDS"
    ),
    Question("transfers", "{step} from one node to another now, by their last plans", "none gains"),
    Question("sizes", "The right size of each machine, for 95 % of its plans in the period"),
)


class Asked(NamedTuple):
    """What the questions are about.

    Attributes:
        from_seconds, to_seconds: the period, Unix times; the end is not in it.
        step_bytes: memory that is given or taken.
        ended_seconds: a node whose last plan is older than the newest of all by more has ended.
        lack_ratio: a node lacks memory if half as much again makes its mean access time fall by
            this part of it.
        size_ratio: a machine is large enough if its mean access time is above the least by no more
            than this part of that.
    """

    from_seconds: float
    to_seconds: float
    step_bytes: int
    ended_seconds: float
    lack_ratio: float
    size_ratio: float


class Answer(NamedTuple):
    """Rows as the database gives them; ``None`` is not known."""

    question: Question
    columns: list[str]
    rows: list[tuple[Any, ...]]


def prepare(store: PlanStore, asked: Asked) -> None:
    """Make what the questions begin with. Raises StoreError."""
    columns = ", ".join(f"{value!r} AS {name}" for name, value in asked._asdict().items())
    store.ask(f"CREATE OR REPLACE TEMP VIEW asked AS SELECT {columns}")
    for statement in (HERE / "views.sql").read_text().split(";\n"):
        if statement.strip():
            # As tables of this run, each is worked out once and not again for each question.
            store.ask(statement.replace("OR REPLACE VIEW", "OR REPLACE TEMP TABLE"))


def answer_to(store: PlanStore, text: str) -> Answer:
    """Answer a statement of SQL that somebody wrote. Raises StoreError."""
    columns, rows = store.ask(text)
    return Answer(Question(text, text, "no rows"), columns, rows)


def answer(store: PlanStore, question: Question) -> Answer:
    """Answer a question from the store. Raises StoreError."""
    columns, rows = store.ask(question.file.read_text())
    return Answer(question, columns, rows)
