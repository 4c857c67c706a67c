"""Theme files: the shipped ones are sound, and a broken one costs one line."""

from __future__ import annotations

import re
from pathlib import Path
from unicodedata import east_asian_width

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from dspark_tui.appearance import glyphs
from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.appearance.roles import MARKDOWN, ROLES, palette_of, role_variables
from dspark_tui.appearance.theming import (
    READABLE,
    contrast,
    load_theme,
    load_themes,
    shipped_themes,
)
from dspark_tui.batch.cell import Cell

SIGNALS = ("primary", "secondary", "accent", "success", "warning", "error")
GOOD = 'schema = 1\nname = "mine"\n[palette]\nprimary = "#7aa2f7"\n'


def written(folder: Path, text: str, name: str = "mine") -> Path:
    file = folder / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return file


def shipped() -> list[Theme]:
    themes, problems = load_themes()
    assert problems == []
    return themes


def test_every_shipped_theme_loads_without_a_word() -> None:
    themes = shipped()
    assert len(themes) == len(list(shipped_themes().glob("*.toml"))) >= 8
    assert sum(not theme.dark and not theme.ansi for theme in themes) >= 2
    assert any(theme.ansi for theme in themes)


@pytest.mark.parametrize("theme", [t for t in load_themes()[0] if not t.ansi], ids=lambda t: t.name)
def test_what_must_be_read_can_be_read(theme: Theme) -> None:
    palette = palette_of(theme)
    variables = role_variables(theme) | theme.variables
    for ground in ("background", "surface", "panel"):
        for text in ("foreground", *SIGNALS):
            assert contrast(palette[text], palette[ground]) >= 4.5, (text, ground)
    for role in ("lane-queued", "sign"):
        assert seen_contrast(variables[f"role-{role}"], palette["background"]) >= 3, role
    for role in ("number", "strong", "dim", "warning", "error", "user", "heading", "code"):
        assert seen_contrast(variables[f"role-{role}"], palette["background"]) >= 4.5, role
    fence, block = variables["role-fence"], variables["role-fence-background"]
    assert seen_contrast(fence, block) >= 4.5
    for role in ("keyword", "name", "string", "number", "comment"):
        assert seen_contrast(variables[f"role-{role}"], block) >= 4.5, role


def test_the_high_contrast_theme_is_that_for_all_its_text() -> None:
    (theme,) = (theme for theme in shipped() if theme.name == "contrast")
    variables = role_variables(theme) | theme.variables
    for role in [*ROLES, *MARKDOWN]:
        if not role.startswith("below"):
            value = variables[f"role-{role}"]
            assert seen_contrast(value, palette_of(theme)["background"]) >= 7, role


def seen_contrast(value: str, ground: str) -> float:
    """Of a colour that may have an opacity, drawn on an opaque one."""
    colour, _, opacity = value.partition(" ")
    share = float(opacity.rstrip("%")) / 100 if opacity else 1.0
    return contrast(Color.parse(ground).blend(Color.parse(colour), share).hex, ground)


@pytest.mark.parametrize("theme", [*shipped(), *BUILTIN_THEMES.values()], ids=lambda t: t.name)
def test_every_role_has_a_value_in_every_theme(theme: Theme) -> None:
    variables = role_variables(theme)
    names = {f"role-{role}" for role in ROLES}
    for role in MARKDOWN:
        names |= {f"role-{role}", f"role-{role}-style", f"role-{role}-background"}
    assert set(variables) == names
    assert all(variables.values())


def test_roles_name_palette_entries_colours_and_opacities(tmp_path: Path) -> None:
    text = GOOD + (
        '[role]\nlane_decode = "primary 40%"\nlane_stall = "#ff0000"\n'
        '[markdown]\nheading = "bold underline primary on #101010"\n'
        '[variables]\nfooter-key-foreground = "#ffffff"\n'
    )
    theme, problems = load_theme(written(tmp_path, text))
    assert theme is not None
    assert problems == []
    assert theme.variables == READABLE | {
        "role-lane-decode": "#7AA2F7 40%",
        "role-lane-stall": "#ff0000",
        "role-heading": "#7AA2F7",
        "role-heading-style": "bold underline",
        "role-heading-background": "#101010",
        "footer-key-foreground": "#ffffff",
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("schema = 1\nname = ", "is not TOML"),
        (GOOD.replace("schema = 1", "schema = 2"), "schema must be 1"),
        (GOOD.replace("mine", "other"), "name must be 'mine'"),
        ('schema = 1\nname = "mine"\n', "needs primary"),
        (GOOD.replace("#7aa2f7", "#zzz"), "palette.primary: '#zzz'"),
        (GOOD + '[role]\nlane_decode = "primry"\n', "role.lane_decode: 'primry'"),
        (GOOD + '[role]\nlane_decode = "primary 400%"\n', "role.lane_decode"),
        (GOOD + '[markdown]\ncode = "bold nocolour"\n', "markdown.code"),
        (GOOD + '[variables]\nscrollbar = "#12"\n', "variables.scrollbar"),
        (GOOD + "[tuning]\ntext_alpha = true\n", "tuning.text_alpha must be a number"),
        (GOOD + "[role]\nlane_decode = 3\n", "role.lane_decode must be a string"),
        (GOOD.replace("[palette]", "dark = 3\n[palette]"), "dark must be true or false"),
        (GOOD + "\x00", "is not TOML"),
    ],
)
def test_a_broken_file_is_one_line_and_no_theme(tmp_path: Path, text: str, complaint: str) -> None:
    file = written(tmp_path, text)
    themes, problems = load_themes(tmp_path)
    assert [theme.name for theme in themes] == [theme.name for theme in shipped()]
    assert len(problems) == 1
    assert problems[0].fatal
    assert str(problems[0]).startswith(f"{file.name}: ")
    assert complaint in str(problems[0])
    assert "\n" not in str(problems[0])


def test_bytes_that_are_no_text_and_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder.toml").mkdir()
    _, problems = load_themes(tmp_path)
    assert sorted(str(p) for p in problems) == [
        "bad.toml: is not UTF-8 text",
        "folder.toml: can't be read: Is a directory",
    ]


def test_an_unknown_key_is_a_warning_with_the_nearest_name(tmp_path: Path) -> None:
    theme, problems = load_theme(written(tmp_path, GOOD + '[role]\nlane_decod = "primary"\n'))
    assert theme is not None
    assert [str(p) for p in problems] == [
        "mine.toml: unknown key role.lane_decod, did you mean role.lane_decode?"
    ]
    assert not problems[0].fatal


def test_a_theme_that_is_hard_to_read_is_used_with_a_warning(tmp_path: Path) -> None:
    text = GOOD + 'foreground = "#555555"\nbackground = "#444444"\n'
    theme, problems = load_theme(written(tmp_path, text))
    assert theme is not None
    assert any("foreground on background has contrast 1." in str(p) for p in problems)


def test_the_users_theme_wins_over_a_shipped_one(tmp_path: Path) -> None:
    name = shipped()[0].name
    written(tmp_path, GOOD.replace("mine", name), name)
    themes, problems = load_themes(tmp_path)
    assert problems == []
    assert {t.name: t.primary for t in themes}[name] == "#7aa2f7"
    assert len(themes) == len(shipped())


def test_a_missing_folder_is_no_problem(tmp_path: Path) -> None:
    assert load_themes(tmp_path / "none")[1] == []


def signs(of: Glyphs) -> str:
    return "".join(getattr(of, name) for name in Glyphs.__struct_fields__)


def test_each_set_of_signs_asks_no_more_than_it_says() -> None:
    """ASCII is 7-bit; in the default set only box lines may be drawn wide by a CJK terminal."""
    assert signs(glyphs.ASCII).isascii()
    ambiguous = [c for c in signs(glyphs.DEFAULT) if east_asian_width(c) not in ("N", "Na")]
    assert re.fullmatch("[\u2500-\u257f]*", "".join(ambiguous))


@pytest.mark.parametrize("of", [glyphs.DEFAULT, glyphs.RICH, glyphs.ASCII])
def test_no_two_states_look_alike_without_colour(of: Glyphs) -> None:
    states = [cell for cell in Cell if cell is not Cell.EMPTY]
    assert len({getattr(of, state) for state in states}) == len(states)
    assert of.slot_free != of.slot_busy
    assert of.bar_done != of.bar_left
