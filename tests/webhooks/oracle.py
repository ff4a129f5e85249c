"""What the mirror must be, told in SQL from the accepted bodies alone.

Shares no code with what it judges. Each check is a query that returns the rows that are wrong.
"""

from __future__ import annotations

import psycopg

from tests.sync.back_office import BackOffice
from webhooks.models import decrypted_body

TEXTS = """
DROP TABLE IF EXISTS oracle_texts;
CREATE UNLOGGED TABLE oracle_texts (id bigint, message_id text, received_at timestamptz, body bytea)
"""
BODIES = "SELECT id, message_id, received_at, body FROM webhooks_event WHERE body IS NOT NULL"
PREPARE = """
DROP TABLE IF EXISTS oracle_accepted;
CREATE UNLOGGED TABLE oracle_accepted AS
 SELECT id AS number, message_id, received_at, body::jsonb AS body, body::jsonb -> 'data' AS data,
  body::jsonb ->> 'event_type' AS event_type
 FROM (SELECT id, message_id, received_at, convert_from(body, 'UTF8') AS body
       FROM oracle_texts) AS texts
 WHERE body IS JSON OBJECT;
ANALYZE oracle_accepted;
"""
ACCEPTED = "accepted AS (SELECT * FROM oracle_accepted)"

ORDERS = f"""
WITH {ACCEPTED},
told AS (
 SELECT number, data, (data ->> 'id')::uuid AS id, (data ->> 'updated_at')::timestamptz AS updated,
  (data #>> '{{last_event,id}}')::bigint AS step
 FROM accepted
 WHERE event_type LIKE 'labtest.order.%' AND jsonb_typeof(data -> 'events') = 'array'
  AND pg_input_is_valid(data ->> 'updated_at', 'timestamptz')
),
newest AS (SELECT DISTINCT ON (id) * FROM told ORDER BY id, updated DESC, step DESC)
SELECT coalesce(newest.id, held.id) FROM newest FULL JOIN orders_order AS held USING (id)
WHERE held.record::jsonb IS DISTINCT FROM newest.data
 OR held.updated_at <> newest.updated OR held.last_event_id <> newest.step
 OR held.last_status <> newest.data #>> '{{last_event,status}}'
"""

HISTORY = f"""
WITH {ACCEPTED},
steps AS (
 SELECT DISTINCT (data ->> 'id')::uuid AS order_id, (step ->> 'id')::bigint AS event_id,
  (step ->> 'created_at')::timestamptz AS created_at, step ->> 'status' AS status
 FROM accepted, jsonb_array_elements(
  CASE jsonb_typeof(data -> 'events') WHEN 'array' THEN data -> 'events' ELSE '[]' END) AS step
 WHERE event_type LIKE 'labtest.order.%' AND pg_input_is_valid(data ->> 'updated_at', 'timestamptz')
)
SELECT coalesce(steps.order_id, held.order_id), event_id
FROM steps FULL JOIN orders_orderevent AS held USING (order_id, event_id)
WHERE held.status IS DISTINCT FROM steps.status OR held.created_at <> steps.created_at
"""

CRITICAL = f"""
WITH {ACCEPTED},
newest AS (
 SELECT DISTINCT ON (data ->> 'order_id') (data ->> 'order_id')::uuid AS order_id, message_id,
  data ->> 'status' AS status, data ->> 'interpretation' AS interpretation
 FROM accepted WHERE event_type = 'labtest.result.critical'
 ORDER BY data ->> 'order_id', (data ->> 'updated_at')::timestamptz DESC, number DESC
)
SELECT coalesce(newest.order_id, held.order_id)
FROM newest FULL JOIN orders_criticalannouncement AS held USING (order_id)
WHERE (held.message_id, held.status, held.interpretation)
 IS DISTINCT FROM (newest.message_id, newest.status, newest.interpretation)
"""

SUMMARIES = f"""
WITH {ACCEPTED},
newest AS (
 SELECT DISTINCT ON (data ->> 'id') (data ->> 'id')::uuid AS id, data, number
 FROM accepted
 WHERE event_type LIKE 'daily.data.%' AND split_part(event_type, '.', 3) IN ('activity', 'body',
  'electrocardiogram', 'meal', 'menstrual_cycle', 'profile', 'sleep', 'sleep_cycle', 'workouts')
 ORDER BY data ->> 'id', number DESC
)
SELECT coalesce(newest.id, held.id) FROM newest FULL JOIN wearables_summary AS held USING (id)
WHERE held.record::jsonb IS DISTINCT FROM newest.data OR held.number <> newest.number
"""

SAMPLES = f"""
WITH {ACCEPTED},
newest AS (
 SELECT DISTINCT ON (1, 2, 3, 4, 5)
  (body ->> 'user_id')::uuid AS user_id, split_part(event_type, '.', 3) AS resource,
  data #>> '{{source,provider}}' AS provider, data #>> '{{source,type}}' AS source_type,
  (sample ->> 'timestamp')::timestamptz AS at,
  coalesce(sample ->> 'value', sample ->> 'systolic')::float8 AS value
 FROM accepted, jsonb_array_elements(data -> 'data') WITH ORDINALITY AS samples (sample, place)
 WHERE event_type LIKE 'daily.data.%' AND jsonb_typeof(data -> 'data') = 'array'
 ORDER BY 1, 2, 3, 4, 5, number DESC, place DESC
),
held AS (
 SELECT user_id, resource, provider, source_type,
  (day + make_interval(secs => second)) AT TIME ZONE 'UTC' AS at,
  CASE WHEN chunk.divisor = 0 THEN wide_value ELSE scaled_value::float8 / chunk.divisor END AS value
 FROM wearables_chunk AS chunk JOIN wearables_series AS series ON series.id = chunk.series_id,
 unnest(seconds || coalesce(tail_seconds, '{{}}'), scaled || coalesce(tail_scaled, '{{}}'),
  wide || coalesce(tail_wide, '{{}}')) AS sample (second, scaled_value, wide_value)
)
SELECT * FROM newest FULL JOIN held USING (user_id, resource, provider, source_type, at)
WHERE newest.value IS DISTINCT FROM held.value
"""

LOOK_UPS = f"""
WITH {ACCEPTED},
wanted AS (
 SELECT CASE data ->> 'type' WHEN 'phlebotomy' THEN 'appointment-phlebotomy'
   ELSE 'appointment-psc' END AS kind, data ->> 'order_id' AS key
 FROM accepted WHERE event_type LIKE 'labtest.appointment.%'
 UNION SELECT 'results', data ->> 'order_id' FROM accepted
  WHERE event_type = 'labtest.result.critical'
 UNION SELECT 'orders', data ->> 'id' FROM accepted WHERE event_type LIKE 'labtest.order.%'
  AND pg_input_is_valid(data ->> 'updated_at', 'timestamptz')
  AND jsonb_typeof(data -> 'events') <> 'array'
 UNION SELECT 'connections', data ->> 'user_id' FROM accepted WHERE event_type LIKE 'provider.%'
 UNION SELECT 'users', body ->> 'user_id' FROM accepted WHERE event_type LIKE 'provider.%'
)
SELECT * FROM wanted EXCEPT SELECT kind, key FROM sync_lookup
"""

ENDS = f"""
WITH {ACCEPTED}
SELECT webhooks_event.event_type, state, outcome, reason, path
FROM webhooks_event LEFT JOIN accepted USING (message_id)
WHERE NOT CASE
 WHEN accepted.event_type IS NULL THEN state = 'dead' AND reason <> ''
 WHEN accepted.event_type IN ('labtest.teleport.done', 'user.renamed', 'daily.data.aura.created')
  THEN state = 'skipped' AND outcome = 'unknown type'
 WHEN accepted.event_type LIKE 'labtest.order.%'
  AND NOT pg_input_is_valid(data ->> 'updated_at', 'timestamptz')
  THEN state IN ('retry', 'dead') AND reason <> ''
 WHEN accepted.event_type LIKE 'labtest.order.%' AND jsonb_typeof(data -> 'events') <> 'array'
  THEN state = 'done' AND outcome = 'looked up'
 ELSE state = 'done' AND outcome <> ''
END
"""

CHECKS = {
    "orders": ORDERS,
    "history": HISTORY,
    "critical results": CRITICAL,
    "summaries": SUMMARIES,
    "samples": SAMPLES,
    "look-ups": LOOK_UPS,
    "states of events": ENDS,
}

ONCE = """
CREATE TABLE applied_once (event_id bigint NOT NULL);
CREATE FUNCTION note_applied() RETURNS trigger LANGUAGE plpgsql AS
 $$ BEGIN INSERT INTO applied_once VALUES (NEW.id); RETURN NULL; END $$;
CREATE TRIGGER applied AFTER UPDATE OF state ON webhooks_event FOR EACH ROW
 WHEN (NEW.state = 'done') EXECUTE FUNCTION note_applied();
"""
"""Counts, in the transaction that applies an event, that it was applied."""

TWICE = "SELECT event_id FROM applied_once GROUP BY 1 HAVING count(*) > 1"
NEVER = """
SELECT id FROM webhooks_event WHERE state = 'done' AND id NOT IN (SELECT event_id FROM applied_once)
"""


def _open_bodies(back_office: BackOffice) -> None:
    back_office.query(TEXTS)
    with (
        psycopg.connect(back_office.database_url) as reader,
        psycopg.connect(back_office.database_url) as writer,
        reader.cursor("bodies") as events,
        writer.cursor().copy("COPY oracle_texts FROM STDIN") as copy,
    ):
        for number, message_id, received_at, body in events.execute(BODIES):
            copy.write_row((number, message_id, received_at, decrypted_body(message_id, body)))


def wrong(back_office: BackOffice, checks: dict[str, str] | None = None) -> dict[str, int]:
    """How many rows are wrong, by check; only those that found any."""
    found = {}
    _open_bodies(back_office)
    back_office.query(PREPARE)
    for name, query in (checks or CHECKS).items():
        rows = back_office.query(query)
        if rows:
            found[name] = len(rows)
            print(f"  {name}: {rows[:3]}")
    return found
