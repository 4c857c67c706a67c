"""An experiment as a grid: which cell is where, what a view shows, and in which order."""

from __future__ import annotations

from dspark_tui.appearance.glyphs import ASCII, DEFAULT
from dspark_tui.conversation.answer import Answer
from dspark_tui.conversation.params import PaneParams
from dspark_tui.experiments.assertions import Assertion, Demand
from dspark_tui.experiments.board import Board, Order, State, View
from dspark_tui.experiments.experiment import Experiment, Prompt
from dspark_tui.experiments.rows import RATING, RowMaker
from dspark_tui.widgets.grid_row import Plan, cell_parts, input_label

WORDS = ("one", "two", "three")
YES = Assertion("yes", Demand.CONTAINS, "yes")


def experiment(*assertions: Assertion, prompts: int = 2, sets: int = 2) -> Experiment:
    return Experiment(
        tuple(Prompt(f"p{n}", "{{word}}" * n + ".") for n in range(1, prompts + 1)),
        tuple({"word": word} for word in WORDS),
        tuple(PaneParams(name=f"s{n}") for n in range(1, sets + 1)),
        assertions,
    )


def answered(board: Board, row: int, column: int, **answer: object) -> None:
    cell = board.entry(row, column).cell
    said = Answer(**{"reason": "stop", **answer})  # type: ignore[arg-type]
    board.answered(cell, RowMaker(board.experiment, "m").row(cell, said))


def shown(board: Board, **view: object) -> list[str]:
    return [WORDS[row] for row in board.rows(View(**view))]  # type: ignore[arg-type]


def test_a_row_is_an_input_and_a_column_a_prompt_with_a_parameter_set() -> None:
    board = Board(experiment())
    assert board.columns == ["p1 / s1", "p1 / s2", "p2 / s1", "p2 / s2"]
    for row, word in enumerate(WORDS):
        for column, title in enumerate(board.columns):
            cell = board.entry(row, column).cell
            assert f"{cell.prompt} / {cell.params.name}" == title
            assert cell.inputs == {"word": word}
    numbers = [entry.cell.number for entry in board.entries(range(len(WORDS)))]
    assert sorted(numbers) == list(range(1, 13))


def test_titles_leave_out_what_all_columns_share() -> None:
    assert Board(experiment(prompts=1)).columns == ["s1", "s2"]
    assert Board(experiment(sets=1)).columns == ["p1", "p2"]


def test_a_cell_goes_from_waiting_to_its_answer() -> None:
    board = Board(experiment(YES))
    entry = board.entry(1, 2)
    assert (entry.state, entry.text, entry.verdicts, entry.failed) == (State.WAITING, "", [], False)
    growing = Answer(text="ye")
    board.begun(entry.cell, growing)
    growing.text += "s"
    assert (board.entry(1, 2).state, board.entry(1, 2).text) == (State.RUNNING, "yes")
    answered(board, 1, 2, text="no", tokens=3, end=2.0, sent=1.0)
    entry = board.entry(1, 2)
    assert (entry.state, entry.text, entry.tokens, entry.seconds) == (State.ANSWERED, "no", 3, 1.0)
    assert (entry.verdicts, entry.failed, board.broken) == ([False], True, 1)


def test_stopping_leaves_answers_and_lets_the_rest_wait_again() -> None:
    board = Board(experiment())
    answered(board, 0, 0, text="a")
    board.begun(board.entry(0, 1).cell, Answer(text="half"))
    board.refused(board.entry(0, 2).cell, "too long")
    board.stopped()
    states = [board.entry(0, column).state for column in range(4)]
    assert states == [State.ANSWERED, State.WAITING, State.REFUSED, State.WAITING]
    assert board.entry(0, 2).failed


def test_sorting_puts_the_most_first_and_keeps_equal_rows_in_order() -> None:
    board = Board(experiment(YES))
    answered(board, 0, 0, text="yes", tokens=5, sent=0.0, end=9.0)
    answered(board, 1, 1, text="no", tokens=70, sent=0.0, end=1.0)
    answered(board, 2, 3, text="yes", tokens=8, sent=0.0, end=3.0)
    board.entry(2, 3).row[RATING] = "5"  # type: ignore[index]
    board.entry(0, 0).row[RATING] = "2"  # type: ignore[index]
    assert shown(board) == ["one", "two", "three"]
    assert shown(board, order=Order.TOKENS) == ["two", "three", "one"]
    assert shown(board, order=Order.TIME) == ["one", "three", "two"]
    assert shown(board, order=Order.RATING) == ["three", "one", "two"]
    assert shown(board, order=Order.FAILED) == ["two", "one", "three"]
    orders = [Order.INPUT]
    while (order := orders[-1].next) is not Order.INPUT:
        orders.append(order)
    assert orders == list(Order)


def test_filters_ask_for_a_cell_that_is_all_of_it() -> None:
    board = Board(experiment(YES))
    answered(board, 0, 0, text="Straße, yes")
    answered(board, 1, 1, text="no")
    answered(board, 1, 2, text="yes")
    board.entry(1, 2).row[RATING] = 4  # type: ignore[index]
    assert shown(board, text="STRASSE") == ["one"]
    assert shown(board, text="thr") == ["three"]
    assert shown(board, failed=True) == ["two"]
    assert shown(board, failed=True, text="yes") == []
    assert shown(board, unrated=True) == ["one", "two"]
    board.entry(1, 1).row[RATING] = 1  # type: ignore[index]
    assert shown(board, unrated=True) == ["one"]


def test_what_people_wrote_into_a_result_file_breaks_nothing() -> None:
    board = Board(experiment())
    answered(board, 0, 0, text="a", tokens=3)
    row = board.entry(0, 0).row
    assert row is not None
    for value in ("great", "9", "2.5", None, "nan", "inf"):
        row[RATING] = row["tokens"] = value
        assert board.entry(0, 0).rating is None
    row[RATING], row["tokens"] = "4.0", "7"
    assert (board.entry(0, 0).rating, board.entry(0, 0).tokens) == (4, 7)


def text_of(board: Board, row: int, column: int, width: int = 30) -> str:
    parts = cell_parts(board.entry(row, column), width, DEFAULT, wanted=True)
    return "".join(part.text for part in parts)


def test_a_cell_shows_state_first_words_tokens_assertions_and_rating() -> None:
    board = Board(experiment(YES, Assertion("no", Demand.CONTAINS, "no")))
    answered(board, 0, 0, text="yes,\n\tof   course \x1b[31mit is that way", tokens=12)
    board.entry(0, 0).row[RATING] = 4  # type: ignore[index]
    assert text_of(board, 0, 0) == "✓ yes, of course ~   12 ✓✗ *4 "
    assert text_of(board, 0, 1) == f"┈{'':29}"
    answered(board, 0, 2, text="no", tokens=5, reason="length")
    assert text_of(board, 0, 2) == "┫ no                     5 ✗✓ "
    board.refused(board.entry(0, 3).cell, "the prompt is too long for this model")
    assert text_of(board, 0, 3) == "! the prompt is too long for~ "
    marks = cell_parts(board.entry(0, 0), 30, ASCII, wanted=False)
    assert "".join(part.text for part in marks).isascii()
    assert {part.style for part in marks} == {"dim"}


def test_many_assertions_are_counted_and_narrow_cells_keep_their_width() -> None:
    many = [Assertion(f"a{n}", Demand.MAX_LENGTH, str(n)) for n in range(6)]
    board = Board(experiment(*many))
    answered(board, 0, 0, text="光光光", tokens=9)
    assert text_of(board, 0, 0).endswith("   9 3/6 ")
    for width in range(3, 40):
        cells = cell_parts(board.entry(0, 0), width, ASCII, wanted=True)
        assert (
            sum(2 * part.text.count("光") + len(part.text.replace("光", "")) for part in cells)
            == width
        )


def test_columns_that_fit_share_the_width() -> None:
    assert Plan.of(100, 10, 3) == Plan(label=11, column=29, shown=3)
    assert Plan.of(78, 40, 9) == Plan(label=19, column=29, shown=2)
    assert Plan.of(20, 5, 2).shown == 1


def test_a_label_is_one_harmless_line() -> None:
    assert input_label(2, {"a": "x\ny", "b": "\x1b[0m"}) == "3 x y, ␛[0m"
    assert input_label(0, {}) == "1"


def test_every_cell_of_a_large_experiment_has_a_place() -> None:
    large = Experiment(
        tuple(Prompt(f"p{n}", "x{{n}}") for n in range(3)),
        tuple({"n": str(n)} for n in range(50)),
        tuple(PaneParams(name=f"s{n}") for n in range(4)),
    )
    board = Board(large)
    places = [board.entry(row, column).cell for row in range(50) for column in range(12)]
    assert len({cell.number for cell in places}) == large.count == 600


def test_a_cell_is_found_by_its_number() -> None:
    board = Board(experiment())
    cell = board.entry(2, 3).cell
    board.refused(cell, "no")
    assert board.entry(2, 3).problem == "no"
    assert board.count(State.REFUSED) == 1
