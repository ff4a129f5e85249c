"""Commands for the service: recorded before they are sent, delivered once, always settled.

    enqueue(request, CancelOrder(order_id=…), form_id)   a row and its audit entry, together
    deliver(COMMANDS)                                    for workers: send, settle, close

Each app defines its commands in `commands.py`, one class per write. The row (`CommandRecord`) has
all the state; a Celery message only wakes a worker.

    waiting ──▶ sending ──▶ done                the answer is applied and the row closed together
       ▲           ├──────▶ refused             by the service or by our check: nothing happened
       │           ▼
       ├────── uncertain ─▶ done, refused       the outcome is unknown: looked up until it is known
       │           ▼
       └────── undecided ─▶ done, given up      a person decides, from the records found

    waiting ──▶ withdrawn                       by a person, before anything was sent

A command that was given up, or refused after a lookup, is looked up for two more weeks. If it was
carried out meanwhile, it is closed as done (`late_outcomes.py`).

If a worker dies before sending, the row stays waiting; if it dies after, the row is uncertain. An
uncertain command is sent again only after the service was asked about it, after the time in which
a slow sending could still arrive, and only if a second sending does no harm (`ResendPolicy`). A
refusal of a second sending proves nothing: the command is looked up, and if the lookup does not
show the outcome, a person decides. A worker with keys that do not decrypt a command's contents puts
the row back.

`command.py` defines a command, `enqueueing.py` the actions of people, `delivery.py` the work of
workers, `late_outcomes.py` the lookups of ended commands, `views.py` and `forms.py` the pages.
Interface: errors and limits, chapter 2.
"""
