"""The official Python SDK as a client of an agent: one session's life, one line of JSON for each step.

    python client.py --cwd DIR --url URL              over HTTP (http://) or a WebSocket (ws://)
    python client.py --cwd DIR -- COMMAND...          over stdio

The agent is the demo agent, perhaps behind acpx. A failed check ends the program with a traceback and exit code 1.
"""

import argparse
import asyncio
import json
import os
from contextlib import asynccontextmanager

from acp import PROTOCOL_VERSION, connect_to_agent, spawn_agent_process, text_block
from acp.http import create_http_stream
from acp.schema import AllowedOutcome, RequestPermissionResponse
from acp.ws import create_websocket_stream


# What the demo agent says to `wait`, the last prompt before the session is loaded.
WAITING = "agent: Waiting until cancelled."


class Editor:
    """Collects messages and allows every permission request."""

    def __init__(self):
        self.messages = []
        self.permissions = []
        self.arrived = asyncio.Condition()

    async def session_update(self, session_id, update, **_):
        kinds = {"user_message_chunk": "user", "agent_message_chunk": "agent"}
        author = kinds.get(update.session_update)
        if author:
            self.messages.append(f"{author}: {update.content.text.strip()}")
            async with self.arrived:
                self.arrived.notify_all()

    async def request_permission(self, options, session_id, tool_call, **_):
        self.permissions.append(tool_call.title)
        allowed = next(option for option in options if option.kind == "allow_once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=allowed.option_id))

    async def until(self, message):
        """Waits for a message: the SDK handles updates in tasks, which may be later than an answer that came behind."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: message in self.messages)

    def take(self):
        messages, self.messages = self.messages, []
        permissions, self.permissions = self.permissions, []
        return {"messages": messages, **({"permissions": permissions} if permissions else {})}

    def on_connect(self, connection):
        pass


@asynccontextmanager
async def connected(arguments):
    editor = Editor()
    if not arguments.url:
        program, *words = arguments.command
        async with spawn_agent_process(editor, program, *words, env=dict(os.environ), cwd=arguments.cwd) as (agent, _):
            yield editor, agent
        return
    is_websocket = arguments.url.startswith("ws")
    transport = await create_websocket_stream(arguments.url) if is_websocket else create_http_stream(arguments.url)
    agent = connect_to_agent(editor, transport)
    try:
        yield editor, agent
    finally:
        await agent.close()


def step(name, **details):
    print(json.dumps({"step": name, **details}), flush=True)


async def life(arguments):
    cwd = arguments.cwd
    async with connected(arguments) as (editor, agent):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = (await agent.new_session(cwd=cwd, mcp_servers=[])).session_id
        step("new")
        await prompt(agent, editor, session, "hello")
        await prompt(agent, editor, session, "permission")
        slow = asyncio.create_task(prompt(agent, editor, session, "wait"))
        await editor.until(WAITING)
        await agent.cancel(session_id=session)
        await slow

    async with connected(arguments) as (editor, agent):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        await agent.load_session(session_id=session, cwd=cwd, mcp_servers=[])
        await editor.until(WAITING)
        step("load", **editor.take())
        await prompt(agent, editor, session, "after load")

    async with connected(arguments) as (editor, agent):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        await agent.resume_session(session_id=session, cwd=cwd, mcp_servers=[])
        step("resume", **editor.take())
        await prompt(agent, editor, session, "after resume")
        rows = (await agent.list_sessions(cwd=cwd)).sessions
        step("list", sessions=[row.session_id == session for row in rows])


async def prompt(agent, editor, session, words):
    answer = await agent.prompt(session_id=session, prompt=[text_block(words)])
    step(f"prompt {words}", stop=answer.stop_reason, **editor.take())


parser = argparse.ArgumentParser()
parser.add_argument("--cwd", required=True)
parser.add_argument("--url")
parser.add_argument("command", nargs="*")
asyncio.run(asyncio.wait_for(life(parser.parse_args()), timeout=60))
