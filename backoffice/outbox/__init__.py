"""Intents out: what staff ask of the service, recorded first, sent once, settled always.

    outbox.ask(request, CancelOrder(order_id=…), form_id)      a row and its audit entry, together
    outbox.deliver(COMMANDS)                                   by workers: sends, settles, closes

Each app has its commands in `commands.py`, one class per write. The row (`CommandRecord`) is the
work; a Celery message only rings the bell.

    waiting ──▶ sending ──▶ done                the answer is applied and the row closed together
       ▲           ├──────▶ refused             the service's words, or ours: nothing happened
       │           ▼
       ├────── uncertain ─▶ done, refused       nobody knows: looked up until it is known
       │           ▼
       └────── undecided ─▶ done, given up      a person decides, with what was found on screen

    waiting ──▶ withdrawn                       by a person, before anything was sent

What was given up, or refused by a look-up, is looked up for two weeks more, and closed as done
where it happened after all (`ended.py`).

A worker that dies before it sent leaves the row waiting; after that, uncertain. What is uncertain
is never sent again before the service was asked and the time is over in which a slow sending could
still arrive; and then only where a second sending does no harm (`Again`). The refusal of a second
sending proves nothing: it is looked up, and else a person decides. A worker whose keys do not open
a command's contents puts it back.

`command.py` is what a command says of itself, `asking.py` what people do, `delivering.py` what
workers do, `ended.py` what happens after the end, `pages.py` and `api.py` the faces. Interface:
errors and limits, chapter 2.
"""

from backoffice.outbox.command import (
    Absent,
    Again,
    Command,
    Found,
    Happened,
    NotNow,
    Refuted,
    Sending,
    Several,
)
from backoffice.outbox.delivery import LONGEST, SEALED, deliver
from backoffice.outbox.enqueueing import Busy, ask, decide, follow, kept, sent_before, withdraw
from backoffice.outbox.forms import AskForm, asked_again
from backoffice.outbox.maintenance import forget

__all__ = [
    "LONGEST",
    "SEALED",
    "Absent",
    "Again",
    "AskForm",
    "Busy",
    "Command",
    "Found",
    "Happened",
    "NotNow",
    "Refuted",
    "Sending",
    "Several",
    "ask",
    "asked_again",
    "decide",
    "deliver",
    "follow",
    "forget",
    "kept",
    "sent_before",
    "withdraw",
]
