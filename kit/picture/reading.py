"""From a graph to the boxes and lines of a picture.

Pure. A variable stands for its initial value, its initializer and its reads; a small
constant is written into the only box that uses it. A run's metadata say where each op
ran, how long it took, and how many bytes each transfer had.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kit.graph.op import Op
from kit.graph.static import text
from kit.picture.grid import device_of, lane_of, lane_order
from kit.picture.scene import BoxKind, Edge, GraphBox, Scene, bytes_text, shortened

# --------------------------------------------------------------------------------------
# A limited number of boxes: what is in a name scope becomes one box for each task.
#
# Pure. Scopes are opened as long as there is room, the smallest first. Where ops
# without scopes are too many, those made one after the other on one task become one
# box.


class BoxPlace(NamedTuple):
    """A box's name, such as `tower_0/MatMul`, and its task."""

    name: str
    lane: str


class BoxGroup(NamedTuple):
    """What some boxes become: a scope's name (or '' for a run of ops) and a number."""

    scope: str
    lane: str
    number: int = 0


def fold(places: Sequence[BoxPlace], most: int) -> list[BoxGroup | None]:
    """Return for each box what it is folded into, None for those that stay.

    >>> deep = [BoxPlace(f"deep/{i}", "ps:0") for i in range(9)]
    >>> boxes = [*deep, BoxPlace("loss", "")]
    >>> fold(boxes, 5)[0], fold(boxes, 5)[-1], fold(boxes, 10)[0]
    (BoxGroup(scope='deep', lane='ps:0', number=0), None, None)
    """
    if len(places) <= most:
        return [None] * len(places)
    paths = [box.name.split("/") for box in places]
    depth = _open_scopes(places, paths, most)
    groups: list[BoxGroup | None] = [
        BoxGroup("/".join(path[:n]), box.lane) if n < len(path) else None
        for box, path, n in zip(places, paths, depth, strict=True)
    ]
    _merge_runs(places, groups, most)
    return groups


def _open_scopes(
    places: Sequence[BoxPlace], paths: Sequence[Sequence[str]], most: int
) -> list[int]:
    """Return how many parts of each name are shown."""
    depth = [1] * len(places)
    inside: dict[str, list[int]] = {}
    for i, path in enumerate(paths):
        inside.setdefault(path[0] if len(path) > 1 else "", []).append(i)
    total = len(inside.pop("", [])) + sum(
        _n_lanes(places, members) for members in inside.values()
    )
    # By size: to open a small scope costs the fewest boxes.
    waiting = [(len(members), members, 2) for members in inside.values()]
    heapq.heapify(waiting)
    while waiting:
        # Scopes of one size, such as the towers of a model, are opened all or none.
        size = waiting[0][0]
        alike = []
        while waiting and waiting[0][0] == size:
            alike.append(heapq.heappop(waiting)[1:])
        opened = [_opened(places, paths, *run) for run in alike]
        more = sum(growth for growth, _ in opened)
        if total + more > most:
            continue  # a larger scope may still fit, if all of it is in a few others
        total += more
        for (members, level), (_, deeper) in zip(alike, opened, strict=True):
            for i in members:
                depth[i] = level
            for part in deeper:
                heapq.heappush(waiting, (len(part), part, level + 1))
    return depth


def _opened(
    places: Sequence[BoxPlace],
    paths: Sequence[Sequence[str]],
    members: Sequence[int],
    level: int,
) -> tuple[int, list[list[int]]]:
    """Return how many more boxes an open scope has, and the scopes within it."""
    parts: dict[str, list[int]] = {}
    for i in members:
        if len(paths[i]) > level:
            parts.setdefault(paths[i][level - 1], []).append(i)
    single = len(members) - sum(map(len, parts.values()))
    folded = sum(_n_lanes(places, part) for part in parts.values())
    return single + folded - _n_lanes(places, members), list(parts.values())


def _n_lanes(places: Sequence[BoxPlace], members: Sequence[int]) -> int:
    return len({places[i].lane for i in members})


def _merge_runs(
    places: Sequence[BoxPlace], groups: list[BoxGroup | None], most: int
) -> None:
    """Fold ops without scopes, in the order in which they were made."""
    loose = [i for i, group in enumerate(groups) if group is None]
    others = len({group for group in groups if group is not None})
    lanes = len({places[i].lane for i in loose})
    if len(loose) + others <= most:
        return
    # One run less for each lane, as the last run of a lane may be a short one.
    length = -(-len(loose) // max(1, most - others - lanes))
    seen: dict[str, int] = {}
    for i in loose:
        lane = places[i].lane
        # At least two: one op in a folded box would say less, not more.
        groups[i] = BoxGroup("", lane, seen.get(lane, 0) // max(2, length))
        seen[lane] = seen.get(lane, 0) + 1


# --------------------------------------------------------------------------------------
# The boxes and lines.

_WRITTEN_IN = 4  # elements of a constant that is written into another box
_CROWD = 3  # boxes and lines together, for each box that is allowed
_TITLE, _DETAIL = 22, 24  # letters
_TYPELESS = (BoxKind.VARIABLE, BoxKind.PLACEHOLDER)  # the shape of the box shows it


class Ran(NamedTuple):
    """Where an op ran, and for how many seconds."""

    device: str
    seconds: float


class MeasuredRun:
    """A run's metadata by op and by transfer; empty without metadata."""

    def __init__(self, metadata: Any = None) -> None:
        """`metadata` is a `kit.RunMetadata` that a run has filled, or None."""
        self.is_given = metadata is not None
        self.ops: dict[str, Ran] = {}
        self.n_bytes: Counter[tuple[str, str]] = Counter()
        for node in metadata.nodes if metadata is not None else ():
            if node.device:  # the others are transfers
                before = self.ops.get(node.node)
                spent = node.end - node.begin + (before.seconds if before else 0.0)
                self.ops[node.node] = Ran(node.device, spent)
        for move in metadata.transfers if metadata is not None else ():
            name = move.tensor.rpartition(":")[0] or move.tensor
            self.n_bytes[name, lane_of(move.destination)] += move.n_bytes


def scene_of(ops: Sequence[Op], metadata: Any = None, most: int = 80) -> Scene:
    """Return the picture of some ops, in the order in which they were made.

    Beyond `most` boxes name scopes are folded.
    """
    reader, fewer = _Reader(ops, MeasuredRun(metadata)), most
    scene = reader.scene(fewer)
    # Arrivals are not among the boxes that `fold` counts, and nobody can follow a crowd
    # of lines; so fewer boxes are tried until both are few.
    while fewer > 4 and len(scene.boxes) + len(scene.lines) > _CROWD * most:
        fewer //= 2
        scene = reader.scene(fewer)
    return scene


class _Reader:
    def __init__(self, ops: Sequence[Op], measured: MeasuredRun) -> None:
        self.ops, self.measured = ops, measured
        ran = measured.ops
        self.device = {
            op: ran[op.name].device if op.name in ran else op.device for op in ops
        }
        self.lane = {op: lane_of(self.device[op]) for op in ops}
        self.users = _users(ops)
        self.owner = {op: op for op in ops}
        self.written: dict[Op, list[str]] = {}
        self._join_variables()
        self._join_constants()

    def _join_variables(self) -> None:
        # What belongs to a variable `w` is in its name scope: `w/read`, `w/Assign`.
        by_name = {op.name: op for op in self.ops if op.op_def.gives_ref}
        for op in self.ops if by_name else ():
            scope = op.name
            while op.name not in by_name and scope:
                scope = scope.rpartition("/")[0]
                variable = by_name.get(scope)
                if variable is not None and self.lane[variable] == self.lane[op]:
                    self.owner[op] = variable
                    break

    def _join_constants(self) -> None:
        for op in self.ops:
            if op.type != "Const" or self.owner[op] is not op:
                continue
            value, users = op.attrs["value"], self.users[op]
            if value.size > _WRITTEN_IN or len(users) != 1:
                continue
            user = self.owner[users[0]]
            if self.lane[user] == self.lane[op] and not user.op_def.gives_ref:
                self.owner[op] = user
                self.written.setdefault(user, []).append(_value_text(value))

    def scene(self, most: int) -> Scene:
        members: dict[Op, list[Op]] = {}
        for op in self.ops:
            members.setdefault(self.owner[op], []).append(op)
        shown = [op for op in self.ops if op in members]
        groups = fold([BoxPlace(op.name, self.lane[op]) for op in shown], most)
        boxes: dict[str, GraphBox] = {}
        self.key: dict[Op, str] = {}
        inside: dict[BoxGroup, list[Op]] = {}
        for op, group in zip(shown, groups, strict=True):
            self.key[op] = op.name if group is None else _key(group)
            if group is None:
                boxes[op.name] = self._box(op, members[op])
            else:
                boxes.setdefault(self.key[op], _EMPTY)  # keeps its place in the order
                inside.setdefault(group, []).extend(members[op])
        for group, some in inside.items():
            boxes[_key(group)] = self._folded(group, some)
        lines = self._lines(boxes)
        traffic = Counter(
            (boxes[line.source].lane, boxes[line.target].lane)
            for line in lines
            if line.is_bold
        )
        lanes = lane_order([box.lane for box in boxes.values()], traffic)
        return Scene(tuple(boxes.values()), tuple(lines), lanes, len(self.ops))

    def _box(self, op: Op, members: Sequence[Op]) -> GraphBox:
        shape = _shape_text(op)
        *scopes, name = op.name.split("/")
        kind, written = _kind(op), ", ".join(self.written.get(op, []))
        parts = [
            "" if name.startswith(op.type) or kind in _TYPELESS else op.type,
            f"({written})" if written else "",
            shape,
            device_of(self.device[op]),
        ]
        detail = shortened(" ".join(filter(None, parts)), _DETAIL)
        if any(scope.startswith("gradients") for scope in scopes):
            name = f"∇ {name}"  # else forward and backward look alike
        tip = "\n".join(
            filter(None, [repr(op).strip("<>"), shape, *self._ran(members)])
        )
        is_faint = self._is_faint(members)
        return GraphBox(
            op.name, kind, self.lane[op], shortened(name, _TITLE), detail, tip, is_faint
        )

    def _folded(self, group: BoxGroup, members: Sequence[Op]) -> GraphBox:
        title = f"{group.scope}/" if group.scope else f"{members[0].name} …"
        types = Counter(op.type for op in members).most_common(6)
        counts = ", ".join(f"{n} {name}" for name, n in types)
        first, last = members[0].name, members[-1].name
        tip = "\n".join([f"{first} … {last}", counts, *self._ran(members)])
        what = _key(group), BoxKind.FOLDED, group.lane, shortened(title, _TITLE)
        return GraphBox(*what, f"{len(members)} ops", tip, self._is_faint(members))

    def _ran(self, members: Iterable[Op]) -> list[str]:
        if not self.measured.is_given:
            return []
        ran = [self.measured.ops[op.name] for op in members if self._did_run(op)]
        if not ran:
            return ["did not run"]
        return [f"{len(ran)} ran, {sum(record.seconds for record in ran) * 1e3:.3f} ms"]

    def _did_run(self, op: Op) -> bool:
        return op.name in self.measured.ops

    def _is_faint(self, members: Iterable[Op]) -> bool:
        # A fed value or a constant is there without having run.
        active = [op for op in members if op.type not in ("Const", "Placeholder")]
        return self.measured.is_given and not (
            any(map(self._did_run, active)) or not active
        )

    def _lines(self, boxes: dict[str, GraphBox]) -> list[Edge]:
        edges: dict[Edge, None] = {}
        moved: dict[tuple[str, str], list[str]] = {}
        for op in self.ops:
            target = self.key[self.owner[op]]
            for before in op.control_inputs:
                if before in self.owner:
                    source = self.key[self.owner[before]]
                    if source != target:
                        edges[Edge(source, target, is_control=True)] = None
            for source_tensor in op.inputs:
                if source_tensor.op not in self.owner:
                    continue
                source = self.key[self.owner[source_tensor.op]]
                if boxes[source].lane == boxes[target].lane:
                    if source != target:
                        edges[Edge(source, target)] = None
                    continue
                names = moved.setdefault((source, boxes[target].lane), [])
                if source_tensor.op.name not in names:
                    names.append(source_tensor.op.name)
                edges[Edge(f"{source} > {boxes[target].lane}", target)] = None
        for (source, lane), names in moved.items():
            key = f"{source} > {lane}"
            boxes[key] = self._arrival(key, lane, boxes[source], names)
            edges[Edge(source, key, is_bold=True)] = None
        return list(edges)

    def _arrival(
        self, key: str, lane: str, source: GraphBox, names: Sequence[str]
    ) -> GraphBox:
        n_bytes = sum(self.measured.n_bytes[name, lane] for name in names)
        several = f"{len(names)} tensors"
        title = source.title if len(names) == 1 else several
        size = bytes_text(n_bytes) if n_bytes else ""
        tip = f"{', '.join(names)}\nfrom {source.lane} to {lane}"
        is_faint = self.measured.is_given and not n_bytes
        title = shortened(title, _TITLE - 8)
        if size:
            title, tip = f"{title}  {size}", f"{tip}\n{n_bytes:,} bytes"
        what = key, BoxKind.ARRIVAL, lane, title
        return GraphBox(*what, "", tip, is_faint, source.lane)


_EMPTY = GraphBox("", BoxKind.FOLDED, "", "")


def _users(ops: Iterable[Op]) -> dict[Op, list[Op]]:
    users: dict[Op, list[Op]] = {op: [] for op in ops}
    for op in users:
        for source_op in dict.fromkeys(
            [*(tensor.op for tensor in op.inputs), *op.control_inputs]
        ):
            if source_op in users:
                users[source_op].append(op)
    return users


def _kind(op: Op) -> BoxKind:
    if op.op_def.gives_ref:
        return BoxKind.VARIABLE
    return {"Placeholder": BoxKind.PLACEHOLDER, "Const": BoxKind.CONSTANT}.get(
        op.type, BoxKind.OP
    )


def _key(group: BoxGroup) -> str:
    return f"{group.scope}/ on {group.lane} #{group.number}"


def _shape_text(op: Op) -> str:
    if not op.outputs:
        return ""
    shape = op.outputs[0].static.shape
    return "scalar" if shape == () else text(shape)


def _value_text(value: Any) -> str:
    flat = value.reshape(-1).tolist()
    parts = [
        f"{number:.4g}" if isinstance(number, float) else str(number) for number in flat
    ]
    return parts[0] if value.ndim == 0 else f"[{', '.join(parts)}]"
