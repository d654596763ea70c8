"""What clients do beside plain commands, in step at all servers."""

from __future__ import annotations

import time

from workloads.experiment.commands.conversation import Conversation
from workloads.experiment.commands.speaker import Command, Speaker

_MOST_AT_ONCE = 16
_MOMENT_SECONDS = 0.002
_WAIT_SECONDS = 5.0


def say_burst(conversation: Conversation, speaker: Speaker) -> None:
    """Some commands of one client at once."""
    client = speaker.draw.randrange(conversation.clients)
    in_transaction = conversation.in_transaction(client)
    commands = []
    for _ in range(speaker.draw.randrange(_MOST_AT_ONCE) + 1):
        command = speaker.command(in_transaction=in_transaction)
        if command.name == b"RESET" and not conversation.may_reset(client):
            continue
        commands.append(command)
        if command.name == b"MULTI":
            in_transaction = True
        elif command.name in (b"EXEC", b"DISCARD", b"RESET"):
            in_transaction = False
    replies = conversation.say(client, commands)
    for command, reply in zip(commands, replies, strict=True):
        if command.name == b"DUMP" and isinstance(reply, bytes) and reply != b"QUEUED":
            speaker.dumped = reply


def play_blocked(conversation: Conversation, speaker: Speaker) -> None:
    """One client waits for what another one brings."""
    waits, brings = speaker.draw.sample(range(conversation.clients), 2)
    for client in (waits, brings):
        if conversation.in_transaction(client):
            conversation.say(client, [_command("DISCARD")])
        conversation.say(client, [_command("SELECT 0")])
    waiting = _command(
        speaker.draw.choice(
            (
                "BLPOP list0 list1 {key} 0",
                "BRPOP list2 list1 0",
                "BLMOVE list1 list2 LEFT RIGHT 0",
                "BRPOPLPUSH list2 list2 0",
                "BLMPOP 0 2 list0 list3 LEFT COUNT 2",
                "BZPOPMIN zset0 zset1 0",
                "BZMPOP 0 2 zset0 zset2 MAX COUNT 3",
                "XREAD BLOCK 0 STREAMS stream0 stream1 $ $",
                "XREADGROUP GROUP g0 c0 BLOCK 0 STREAMS stream0 >",
            )
        ).replace("{key}", speaker.key("list").decode("latin-1").strip() or "list5")
    )
    conversation.send(waits, [waiting])
    # Both servers have it before anything else is said.
    conversation.wait_until_blocked(waits)
    brought = [
        _command(text)
        for text in (
            "MULTI",
            f"RPUSH list{speaker.draw.randrange(4)} a b c",
            f"ZADD zset{speaker.draw.randrange(3)} 1 a 2 b",
            "XADD stream0 9000-* f v",
            "DEL list3",
            "EXEC",
            "RPUSH list0 d",
            "RPUSH list1 e",
            "RPUSH list2 f",
            "ZADD zset0 3 c",
        )
    ]
    if speaker.draw.random() < 0.5:
        brought = [part for part in brought if part.name not in (b"MULTI", b"EXEC")]
    conversation.say(brings, brought)
    conversation.unblock(waits)
    conversation.hear(waits, [waiting])


def play_expiry(conversation: Conversation, speaker: Speaker) -> None:
    """A key's time runs out, and then it is asked for."""
    client = speaker.draw.randrange(conversation.clients)
    if conversation.in_transaction(client):
        conversation.say(client, [_command("DISCARD")])
    kind = speaker.draw.choice(("string", "list", "hash", "set", "zset", "stream"))
    key = f"{kind}{speaker.draw.randrange(8)}"
    conversation.say(client, [_command(f"PEXPIRE {key} 1")])
    time.sleep(_MOMENT_SECONDS)
    asking = ("GET {}", "EXISTS {}", "SET {} again", "DEL {}", "TYPE {}", "RENAME {} {}", "INCR {}")
    conversation.say(
        client,
        [_command(speaker.draw.choice(asking).replace("{}", key)), _command(f"EXISTS {key}")],
    )


def _command(text: str) -> Command:
    return Command(tuple(word.encode("latin-1") for word in text.split()), "=")
