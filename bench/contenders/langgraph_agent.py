"""LangGraph with its PostgreSQL saver: the same run as a graph of two nodes, and its bare save. Runs in the peers' environment."""

import operator
import uuid
from contextlib import ExitStack
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from bench.closed_loop import Operation
from bench.payload import MODEL_TEXT, PAIRS, TOOL_TEXT, prose

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


def save(dsn: str) -> Operation:
    """lg_put+put_writes: one checkpoint of a 2 kB state and the writes of its task."""
    saver = _open.enter_context(PostgresSaver.from_conn_string(dsn))
    thread, parent, number = str(uuid.uuid4()), "", 0
    messages = [{"id": f"m{index}", "content": prose(450, index)} for index in range(4)]

    def once() -> None:
        nonlocal parent, number
        number += 1
        version = f"{number:032}.0.5"
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6(clock_seq=number))
        checkpoint["channel_values"] = {"messages": messages, "step": number}
        checkpoint["channel_versions"] = {"messages": version, "step": version}
        place = {"thread_id": thread, "checkpoint_ns": ""} | ({"checkpoint_id": parent} if parent else {})
        metadata: Any = {"source": "loop", "step": number, "parents": {}}
        stored = saver.put({"configurable": place}, checkpoint, metadata, {"messages": version, "step": version})
        saver.put_writes(stored, [("messages", messages[:1])], task_id=f"task{number}")
        parent = checkpoint["id"]

    return once
