"""A made-up clinic of any size in our own tables, as a sync would have left it.

    build(orders=1_000_000)

`people.py` has names, places, tests and results; `lives.py` how orders have lived; `rows.py` the
statements that multiply them; `building.py` runs those, and `keeping.py` keeps what was built.
"""

from tests.bench.world.building import Size, build

__all__ = ["Size", "build"]
