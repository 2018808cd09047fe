"""Others use the memory that an object releases, though no loop runs over them: beside it, by name, or for the time of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

TABLE = """
import torch

tiles = {}


def tile(user, n):
    key = (user, n)
    if key not in tiles:
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("warm up first")
        tiles[key] = torch.empty(n, device="cuda")
    return tiles[key]


def drop_tiles(user=None):
    for key in [key for key in tiles if user is None or key[0] == user]:
        del tiles[key]

"""

PLAYER = """
class Player:
    def __init__(self, USER, n):
        self.USER = USER
        self.x = torch.zeros(n, device="cuda")
        self.graph = None
        self.open()

    def open(self):
        self.body()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.body()

    def body(self):
        return self.x * tile(self.USER, self.x.numel())

    def play(self):
        self.graph.replay()
        return self.y.clone()

    def close(self):
        if self.graph is not None:
            self.graph.reset()
            self.graph = self.y = None
        RELEASE

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

"""


def player(release: str, user: str = "name") -> str:
    return TABLE + PLAYER.replace("RELEASE", release).replace("USER", user)


def found(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "engines.py"
    path.write_text(text)
    report = check.check([str(path)], Settings(select=("shared-release",)), registry.rules())
    source = report.sources[str(path)]
    return [" ".join(source.text(finding.span).split()) for finding in report.findings]


@pytest.mark.parametrize("user", ["name", "engine_id", "prefix"])
def test_a_table_with_the_names_of_its_users_has_several(tmp_path: Path, user: str) -> None:
    assert found(tmp_path, player("drop_tiles()", user)) == ["drop_tiles()"]


def test_entries_of_one_name_are_nobody_elses(tmp_path: Path) -> None:
    assert found(tmp_path, player("drop_tiles(self.name)")) == []


@pytest.mark.parametrize("user", ["width", "dtype"])
def test_what_tells_nobody_apart_says_nothing_of_others(tmp_path: Path, user: str) -> None:
    assert found(tmp_path, player("drop_tiles()", user)) == []


HUB = """
class Hub:
    def __init__(self):
        self.players = {}

    def load(self, name):
        self.players[name] = Player(4, 8)

    def unload(self, name):
        self.players.pop(name).close()
        torch.cuda.empty_cache()
"""


def test_one_that_is_taken_out_of_a_table_is_not_the_last(tmp_path: Path) -> None:
    assert found(tmp_path, player("drop_tiles()", "width") + HUB) == ["drop_tiles()"]


TRIAL = """
class Server:
    def __init__(self):
        self.main = Player(4, 8)

    def tune(self):
        best = None
        for width in (2, 8):
            with Player(width, 8) as trial:
                best = trial.play()
        return best
"""


def test_one_for_a_job_lies_beside_the_one_that_serves(tmp_path: Path) -> None:
    assert found(tmp_path, player("drop_tiles()", "width") + TRIAL) == ["drop_tiles()"]


def test_before_the_one_that_serves_is_there_it_is_alone(tmp_path: Path) -> None:
    text = player("drop_tiles()", "width") + TRIAL.replace(
        "self.main = Player(4, 8)", "self.tune(); self.main = Player(4, 8)"
    )
    assert found(tmp_path, text) == []


LOADED = """
class Server:
    def __init__(self):
        self.main = Player(4, 8)

    def reload(self):
        self.main.close()
        self.main = Player(8, 8)
"""


def test_one_that_follows_the_other_is_alone(tmp_path: Path) -> None:
    assert found(tmp_path, player("drop_tiles()", "width") + LOADED) == []


ENCODER = """
class Encoder:
    def __init__(self):
        self.pixels = torch.zeros(8, device="cuda")
        tile(0, 8)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.pixels * tile(0, 8)

    def end(self):
        self.graph.reset()
        drop_tiles()


class Server:
    def __init__(self):
        self.player = Player(4, 8)
        self.encoder = Encoder()

    def stop_images(self):
        BEFORE
        self.encoder.end()
"""


def test_an_object_of_another_class_uses_it_too(tmp_path: Path) -> None:
    assert found(tmp_path, player("pass", "width") + ENCODER.replace("BEFORE", "pass")) == ["drop_tiles()"]


def test_whose_graphs_are_dead_already_uses_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, player("pass", "width") + ENCODER.replace("BEFORE", "self.player.close()")) == []


SHRINKING = """
def drop_tiles(room=0):
    total = sum(each.nbytes for each in tiles.values())
    while tiles and total > room:
        first = next(iter(tiles))
        total -= tiles.pop(first).nbytes

"""


def test_whichever_entry_is_next_may_be_somebody_elses(tmp_path: Path) -> None:
    assert found(tmp_path, player("drop_tiles(room=0)") + SHRINKING) == ["drop_tiles(room=0)"]


def test_a_chosen_entry_is_one_objects(tmp_path: Path) -> None:
    text = SHRINKING.replace("next(iter(tiles))", "room")
    assert found(tmp_path, player("drop_tiles(room=0)") + text) == []


def test_a_table_of_tensors_that_captured_code_reads_is_memory_whatever_fills_it(tmp_path: Path) -> None:
    text = player("drop_tiles()").replace("tiles = {}", "tiles: dict[tuple, torch.Tensor] = {}")
    text = text.replace('torch.empty(n, device="cuda")', "scales[n] * 2")
    assert found(tmp_path, "scales = {}\n" + text) == ["drop_tiles()"]


COMMON = """
import torch


class Rows:
    def __init__(self):
        self.table = {}

    def of(self, n):
        if n not in self.table:
            self.table[n] = torch.empty(n, device="cuda")
        return self.table[n]

    def free(self):
        self.table.clear()


class Head:
    def __init__(self, rows, n, last=False):
        self.rows = rows
        self.last = last
        rows.of(n)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.rows.of(n) + 1

    def close(self):
        self.graph.reset()
        RELEASE

"""


@pytest.mark.parametrize(
    ("make", "times"),
    [
        ("rows = Rows()\n    return [Head(rows, n) for n in (4, 8)]", 1),
        ("rows = Rows()\n    return Head(rows, 4), Head(rows, 8)", 1),
        (
            "rows = Rows()\n    heads = []\n    for n in range(4):\n        heads.append(Head(rows, n))\n    return heads",
            1,
        ),
        ("return [Head(Rows(), n) for n in range(4)]", 0),
        ("return Head(Rows(), 4), Head(Rows(), 8)", 0),
        ("rows = Rows()\n    return Head(rows, 4)", 0),
    ],
)
def test_what_several_were_made_with_is_no_ones_own(tmp_path: Path, make: str, times: int) -> None:
    text = COMMON.replace("RELEASE", "self.rows.free()") + f"\ndef main():\n    {make}\n"
    assert found(tmp_path, text) == ["self.rows.free()"] * times


@pytest.mark.parametrize("release", ["self.rows = None", "if self.last:\n            self.rows.free()"])
def test_a_reference_may_go_and_the_last_one_may_end_it(tmp_path: Path, release: str) -> None:
    text = (
        COMMON.replace("RELEASE", release)
        + "\ndef main():\n    rows = Rows()\n    return [Head(rows, n) for n in range(4)]\n"
    )
    assert found(tmp_path, text) == []


DERIVED = """
class Smaller(Player):
    def close(self):
        super().close()
        drop_tiles()


class Server:
    def __init__(self):
        self.main = Player(4, 8)
        self.draft = Smaller(4, 8)

    def stop_draft(self):
        self.draft.close()
"""


def test_one_of_a_derived_class_lies_beside_one_of_its_base(tmp_path: Path) -> None:
    assert found(tmp_path, player("pass", "width") + DERIVED) == ["drop_tiles()"]


MIXED = """
class Dropping:
    def drop_all(self):
        drop_tiles()


class Lane(Dropping):
    def __init__(self, n):
        self.n = n
        tile(0, n)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = tile(0, n) + 1

    def retire(self):
        self.graph.reset()
        self.drop_all()


class Lanes:
    def __init__(self, count):
        self.lanes = [Lane(8) for _ in range(count)]

    def shrink(self):
        lane = self.lanes.pop()
        lane.retire()
"""


def test_a_mixin_releases_for_its_object(tmp_path: Path) -> None:
    assert found(tmp_path, TABLE + MIXED) == ["self.drop_all()"]


ENGINE = """
class Trial:
    def __init__(self, body):
        self.body = body
        self.graph = None

    def __enter__(self):
        return self

    def cost(self, x):
        self.body(x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.body(x)
        return torch.cuda.memory_reserved()

    def __exit__(self, *error):
        self.graph.reset()
        self.graph = self.y = None
        drop_tiles()


def body(x):
    return x * tile("all", x.numel())


class Engine:
    def __init__(self):
        self.graphs = {}

    def record(self, n):
        x = torch.zeros(n, device="cuda")
        body(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = body(x)
        self.graphs[n] = graph, x, y

    def admit(self, n):
        FIRST
        with Trial(body) as trial:
            cost = trial.cost(torch.zeros(n, device="cuda"))
        if cost < 1 << 30:
            self.record(n)

    def end(self):
        for graph, _, _ in self.graphs.values():
            graph.reset()
        self.graphs.clear()
"""


def test_a_trial_lies_beside_the_engine_that_makes_it(tmp_path: Path) -> None:
    assert found(tmp_path, TABLE + ENGINE.replace("FIRST", "pass")) == ["drop_tiles()"]


def test_an_engine_without_graphs_needs_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, TABLE + ENGINE.replace("FIRST", "self.end()")) == []


STORE = """
import torch


class Store:
    def __init__(self):
        self.tiles = {}

    def tile(self, user, n):
        if (user, n) not in self.tiles:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("warm up first")
            self.tiles[user, n] = torch.empty(n, device="cuda")
        return self.tiles[user, n]


store = Store()


def store_of_all():
    global store
    if store is None:
        store = Store()
    return store


def tile(user, n):
    return store.tile(user, n)


def renew():
    global store
    store = Store()

"""


def test_a_new_manager_takes_the_memory_of_the_old_one_along(tmp_path: Path) -> None:
    assert found(tmp_path, STORE + PLAYER.replace("RELEASE", "renew()").replace("USER", "name")) == ["renew()"]


def test_a_manager_where_there_is_none_takes_nothing(tmp_path: Path) -> None:
    text = PLAYER.replace("RELEASE", "store_of_all()").replace("USER", "name")
    assert found(tmp_path, STORE + text) == []


KINDS = """
import torch

tiles = {}


def tile(kind, user, n):
    if (kind, user, n) not in tiles:
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("warm up first")
        tiles[kind, user, n] = torch.empty(n, device="cuda")
    return tiles[kind, user, n]


def drop_kind(kind):
    for key in [key for key in tiles if key[0] == kind]:
        del tiles[key]


def drop_user(user):
    for key in [key for key in tiles if key[1] == user]:
        del tiles[key]

"""


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ('drop_kind("gated")', 1),
        ("drop_kind(KIND)", 1),
        ("drop_kind(self.KIND)", 1),
        ("drop_kind(Player.KIND)", 1),
        ("drop_user(self.name)", 0),
    ],
)
def test_entries_of_one_kind_are_those_of_all_of_that_kind(tmp_path: Path, release: str, expected: int) -> None:
    text = PLAYER.replace("tile(self.USER,", 'tile("gated", self.USER,').replace("USER", "name")
    text = text.replace("class Player:", 'KIND = "gated"\n\n\nclass Player:\n    KIND = "gated"\n').replace(
        "RELEASE", release
    )
    assert len(found(tmp_path, KINDS + text)) == expected
