"""LangGraph with its PostgreSQL saver: the same run as a graph of two nodes, its bare saves, and the growth. Runs in the peers' environment."""

import operator
import time
import uuid
from contextlib import ExitStack
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages

from bench.closed_loop import Operation
from bench.growing import LOADS, START_MESSAGES, STEPS, Grown, texts
from bench.payload import LARGE_MESSAGES, MODEL_TEXT, PAIRS, SMALL_MESSAGES, TOOL_TEXT, messages

_open = ExitStack()  # a saver closes its connection when its context is left or lost


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]
    number: Annotated[int, operator.add]


def prepare(dsn: str) -> None:
    """Its own migrations."""
    with PostgresSaver.from_conn_string(dsn) as saver:
        saver.setup()


def agent(dsn: str) -> Operation:
    """lg_sync: one invoke with durability "sync", on a new thread."""
    app = _graph().compile(checkpointer=_open.enter_context(PostgresSaver.from_conn_string(dsn)))

    def run() -> None:
        config = {"configurable": {"thread_id": str(uuid.uuid4())}, "recursion_limit": 3 * PAIRS}
        given = app.invoke({"messages": [("user", "go")], "number": 0}, config, durability="sync")
        if len(given["messages"]) != 1 + 2 * PAIRS:
            raise RuntimeError("the graph did not run to its end")

    return run


def _graph() -> StateGraph[Any]:
    graph = StateGraph(State)
    graph.add_node("model", _model)
    graph.add_node("tool", _tool)
    graph.add_edge(START, "model")
    graph.add_edge("model", "tool")
    graph.add_conditional_edges("tool", lambda state: END if state["number"] >= PAIRS else "model")
    return graph


def _model(state: State) -> dict[str, Any]:
    call = {"name": "echo", "args": {"number": state["number"]}, "id": f"c{state['number']}"}
    return {"messages": [AIMessage(content=MODEL_TEXT, tool_calls=[call])], "number": 1}


def _tool(state: State) -> dict[str, Any]:
    return {"messages": [ToolMessage(content=TOOL_TEXT, tool_call_id=f"c{state['number'] - 1}")]}


def put(dsn: str) -> Operation:
    """One checkpoint of a 2 kB state."""
    return _saving(dsn, SMALL_MESSAGES, writes=False)


def put_writes(dsn: str) -> Operation:
    """The same and the writes of its task, as a graph saves a step: two commits."""
    return _saving(dsn, SMALL_MESSAGES, writes=True)


def put_large(dsn: str) -> Operation:
    """One checkpoint of a 500 kB state."""
    return _saving(dsn, LARGE_MESSAGES, writes=False)


def _saving(dsn: str, count: int, *, writes: bool) -> Operation:
    saver = _open.enter_context(PostgresSaver.from_conn_string(dsn))
    thread, parent, number = str(uuid.uuid4()), "", 0
    given = messages(count)

    def once() -> None:
        nonlocal parent, number
        number += 1
        version = f"{number:032}.0.5"
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6(clock_seq=number))
        checkpoint["channel_values"] = {"messages": given, "step": number}
        checkpoint["channel_versions"] = {"messages": version, "step": version}
        place = {"thread_id": thread, "checkpoint_ns": ""} | ({"checkpoint_id": parent} if parent else {})
        metadata: Any = {"source": "loop", "step": number, "parents": {}}
        stored = saver.put({"configurable": place}, checkpoint, metadata, {"messages": version, "step": version})
        if writes:
            saver.put_writes(stored, [("messages", given[:1])], task_id=f"task{number}")
        parent = checkpoint["id"]

    return once


class Growing(TypedDict):
    messages: Annotated[list[Any], add_messages]
    number: int


class GrowingByDeltas(TypedDict):
    messages: Annotated[list[Any], DeltaChannel(_messages_delta_reducer)]
    number: int


def grow(dsn: str) -> Grown:
    """The growth with the channel that a graph has by default: every version holds all messages."""
    return _grown(dsn, Growing)


def grow_by_deltas(dsn: str) -> Grown:
    """The growth with the channel that stores deltas and, by default, a snapshot of every hundredth version."""
    return _grown(dsn, GrowingByDeltas)


def _grown(dsn: str, state: type) -> Grown:
    given, marks = texts(START_MESSAGES + STEPS), []

    def step(now: dict[str, Any]) -> dict[str, Any]:
        marks.append(time.perf_counter())
        number = now["number"]
        return {"messages": [AIMessage(content=given[number], id=f"m{number}")], "number": number + 1}

    graph = StateGraph(state)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda now: END if now["number"] >= len(given) else "step")
    saver = _open.enter_context(PostgresSaver.from_conn_string(dsn))
    app, config = graph.compile(checkpointer=saver), {"configurable": {"thread_id": "t"}, "recursion_limit": 2 * STEPS}
    first = [AIMessage(content=text, id=f"m{number}") for number, text in enumerate(given[:START_MESSAGES])]
    app.invoke({"messages": first, "number": START_MESSAGES}, config, durability="sync")
    marks.append(time.perf_counter())
    return Grown(sum(1 for _ in saver.list(config)), marks, [_load(app, config, len(given)) for _ in range(LOADS)], [])


def _load(app: Any, config: Any, count: int) -> float:
    """Milliseconds of reading the last state."""
    began = time.perf_counter()
    found = app.get_state(config).values["messages"]
    taken = 1e3 * (time.perf_counter() - began)
    if len(found) != count:
        raise RuntimeError(f"{len(found)} messages were read")
    return taken
