"""The statements that create rows from a few hundred order histories, names and places.

Everything random is a function of the number of a row and a salt: `draw(number, salt, below)`.
"""

from __future__ import annotations

from typing import Final

from tests.bench.data_set.order_histories import MOST_STEPS

SPAN_DAYS: Final = 3 * 365
"""Orders are spread evenly over this time, except for the last days."""
ORDERS_PER_DAY: Final = 1_000_000 / SPAN_DAYS
"""Orders of each of the `LAST_DAYS`, in a data set of any size.

Sizes differ in the older orders only, so a page of today's work has the same number of rows in
each.
"""
LAST_DAYS: Final = 5
RESULTS_SHARE: Final = 0.68
"""Results were read from this share of the orders on, oldest first."""
MIRRORED: Final = "record, content_hash, as_of"
"""Records are built behind `OFFSET 0`, because PostgreSQL would build each again for its hash."""

SCHEMA: Final = """
DROP SCHEMA IF EXISTS world CASCADE;
CREATE SCHEMA world;
CREATE FUNCTION world.draw(bigint, bigint, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
 $$SELECT (hashint8extended($1, $2) & 9007199254740991) % $3$$;
CREATE FUNCTION world.said(double precision) RETURNS text LANGUAGE sql STABLE AS
 $$SELECT to_char(to_timestamp($1) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"')$$;
CREATE FUNCTION world.hash(text, revision int DEFAULT 1) RETURNS bytea LANGUAGE sql IMMUTABLE AS
 $$SELECT set_byte(substr(sha256(convert_to($1, 'UTF8')), 1, 16), 15, revision)$$;
CREATE TABLE world.first_name (i int PRIMARY KEY, name text, folded text, gender text);
CREATE TABLE world.last_name (i int PRIMARY KEY, name text, folded text);
CREATE TABLE world.place (i int PRIMARY KEY, city text, state text, zip text, zone text);
CREATE TABLE world.lab_test (method text, i int, id uuid, name text, slug text, json text,
 PRIMARY KEY (method, i));
CREATE TABLE world.life (i int PRIMARY KEY, open boolean, method text, steps text[], hours int,
 detail text, visit text, has_sample boolean, result_status text, scheduled boolean, text text,
 last_status text, status text, low_level_status text, status_detail text, bucket text,
 interpretation text, has_missing_results boolean, billing_type text, has_abn boolean);
CREATE TABLE world.slot (open boolean, i int, life int, PRIMARY KEY (open, i));
CREATE TABLE world.quiet (n bigint, quiet_at timestamptz);
CREATE TABLE world.result (panel int, variant int, look text, text text, laboratory text,
 returned int, missing int, reading text, received text, PRIMARY KEY (panel, variant));
"""

PEOPLE: Final = """
CREATE UNLOGGED TABLE world.person AS
SELECT p, md5('patient' || p)::uuid AS id, f.name AS first_name, l.name AS last_name,
 split_part(f.folded, '  ', 1) || ' ' || split_part(l.folded, '  ', 1)
  || coalesce('  ' || nullif(concat_ws(' ', nullif(split_part(f.folded, '  ', 2), ''),
   nullif(split_part(l.folded, '  ', 2), '')), ''), '') AS name_key, f.gender,
 replace(split_part(f.folded, '  ', 1), ' ', '') || '.' || p || '@example.invalid' AS email,
 '+1555' || lpad(world.draw(p, 3, 10000000)::text, 7, '0') AS phone,
 date '1930-01-01' + world.draw(p, 4, 29000)::int AS dob,
 (1 + world.draw(p, 5, 900)) || ' Sample Street' AS street, place.city, place.state, place.zip,
 place.zone, {start} + {span} * (p::float8 / {patients}) AS made
FROM generate_series(1, {patients}) AS p
JOIN world.first_name f ON f.i = world.draw(p, 1, {firsts})
JOIN world.last_name l ON l.i = world.draw(p, 2, {lasts})
JOIN world.place ON place.i = world.draw(p, 6, {places})
"""

ORDERS: Final = """
CREATE UNLOGGED TABLE world.orders AS
SELECT n, md5('order' || n)::uuid AS id, grouped, md5('group' || grouped)::uuid AS group_id,
 world.draw(n, 14, {tests}) AS test, slot.life,
 1 + floor({patients} * power(world.draw(grouped, 10, 1000000) / 1e6, 1.3))::int AS p,
 at, (cardinality(life.steps) > 1)::int * floor(least(
  life.hours * 3600.0 * (0.5 + world.draw(n, 13, 1000) / 1000.0),
  ({now} - at) * CASE WHEN life.open THEN 0.5 + world.draw(n, 15, 480) / 1000.0 ELSE 0.97 END
 )) AS lived,
 CASE WHEN life.visit IS NOT NULL THEN md5('visit' || n)::uuid END AS visit_id,
 CASE WHEN scheduled THEN to_timestamp(at)::date + 30 + world.draw(n, 21, 60)::int END
  AS activate_by,
 to_timestamp(at)::date + 9 AS expected
FROM (
 SELECT n, n - (n % 33 = 0)::int AS grouped,
  floor(CASE WHEN n > {orders} - {lately}
   THEN {now} - {spacing} * ({orders} - n + world.draw(n, 11, 1000) / 1001.0)
   ELSE {start} + ({span} - {spacing} * {lately})
    * ((n - world.draw(n, 11, 1000) / 1001.0) / ({orders} - {lately}))
  END) AS at
 FROM generate_series(1, {orders}) AS n
) AS made
JOIN world.slot ON slot.i = world.draw(n, 12, 1000) AND slot.open = (world.draw(n, 16, 1000) <
 CASE WHEN {now} - at < 60 * 86400 THEN 750 WHEN {now} - at < 365 * 86400 THEN 15 ELSE 3 END)
JOIN world.life ON life.i = slot.life
"""

SELECT_LIMITED_ORDERS: Final = """
SELECT n, low_level_status, life.method, test.slug, to_timestamp(at + lived), activate_by, expected
FROM world.orders o JOIN world.life ON life.i = o.life
JOIN world.lab_test test ON test.method = life.method AND test.i = o.test
WHERE low_level_status = ANY(%s)
"""
"""Orders that may be over their usual time, with the values that it depends on."""

_STEP_TIMES = ", ".join(
    f"world.said(at + floor(lived * {n}.0 / greatest(cardinality(steps) - 1, 1)))"
    for n in range(MOST_STEPS)
)

GROUP_JSON: Final = """
'[' || format(
 '{{"id": "%s", "low_level_status": "", "origin": "initial", "parent_id": null}}',
 md5('order' || o.grouped)::uuid
) || CASE WHEN o.grouped % 33 = 32 AND o.grouped < {orders} THEN format(
 ', {{"id": "%s", "low_level_status": "", "origin": "redraw", "parent_id": "%s"}}',
 md5('order' || o.grouped + 1)::uuid, md5('order' || o.grouped)::uuid) ELSE '' END || ']'
"""

INSERT_ORDERS: Final = f"""
INSERT INTO orders_order (id, team_id, user_id, order_transaction_id, parent_id, created_at,
 updated_at, last_event_id, last_event_at, last_status, status, low_level_status, status_detail,
 bucket, method, origin, priority, activate_by, sample_id, outbound_tracking_number,
 inbound_tracking_number, lab_test_id, lab_test_name, lab_slug, quiet_at, billing_type,
 interpretation, service_interpretation, has_missing_results, has_abn,
 expected_result_by_date, patient_first_name, patient_last_name, patient_name, patient_dob,
 patient_gender, patient_phone, patient_email, recipient_name, {MIRRORED})
SELECT id, '7ea00000-0000-4000-8000-000000000001', user_id, group_id, parent_id,
 to_timestamp(at), to_timestamp(at + lived), n * 100 + cardinality(steps) - 1,
 to_timestamp(at + lived), last_status, status, low_level_status, status_detail, bucket, method,
 origin, priority, activate_by, sample_id, outbound, inbound, lab_test_id, lab_test_name, lab_slug,
 quiet_at, billing_type, interpretation, coalesce(interpretation, ''), has_missing_results, has_abn,
 expected, first_name, last_name,
 name_key, dob, gender, phone, email, name_key, record,
 world.hash(record, 5), to_timestamp({{now}})
FROM (
 SELECT *, format(text, id, user_id, first_name, last_name, dob, gender, phone, email, street,
  city, state, zip, test_json, coalesce('"' || sample_id || '"', 'null'), world.said(at),
  world.said(at + lived), n, group_id, siblings, origin, priority::text,
  coalesce('"' || activate_by || '"', 'null'), expected, visit_id, {_STEP_TIMES}
 ) AS record
 FROM (
  SELECT o.id, o.n, o.at, o.lived, o.group_id, o.visit_id, life.*, test.id AS lab_test_id,
   test.name AS lab_test_name, test.slug AS lab_slug, test.json AS test_json,
   person.id AS user_id, first_name, last_name, name_key, dob, gender, phone, email, street, city,
   state, zip, {GROUP_JSON} AS siblings,
   CASE WHEN o.n > o.grouped THEN md5('order' || o.grouped)::uuid END AS parent_id,
   CASE WHEN o.n > o.grouped THEN 'redraw' ELSE 'initial' END AS origin,
   world.draw(o.n, 20, 100) < 4 AS priority,
   CASE WHEN has_sample THEN 'S' || 100000000 + o.n END AS sample_id,
   CASE WHEN 'collecting_sample.testkit.transit_customer' = ANY(steps) THEN 'OUT000' || o.n
    END AS outbound,
   CASE WHEN 'collecting_sample.testkit.transit_lab' = ANY(steps) THEN 'INB000' || o.n
    END AS inbound,
   o.activate_by, o.expected, quiet.quiet_at
  FROM world.orders o JOIN world.person USING (p) JOIN world.life ON life.i = o.life
  LEFT JOIN world.quiet USING (n)
  JOIN world.lab_test test ON test.method = life.method AND test.i = o.test
  WHERE o.n % {{parts}} = {{part}}
 ) AS whole OFFSET 0
) AS told
"""

INSERT_EVENTS: Final = """
INSERT INTO orders_orderevent (order_id, event_id, created_at, status, low_level_status,
 status_detail)
SELECT o.id, o.n * 100 + step - 1,
 to_timestamp(at + floor(lived * (step - 1) / greatest(cardinality(steps) - 1, 1))), dotted,
 split_part(dotted, '.', 3),
 CASE WHEN step = cardinality(steps) THEN detail END
FROM world.orders o JOIN world.life ON life.i = o.life
CROSS JOIN unnest(steps) WITH ORDINALITY AS each (dotted, step)
WHERE o.n % {parts} = {part}
"""

INSERT_TRANSACTIONS: Final = f"""
INSERT INTO orders_transaction (id, status, {MIRRORED})
SELECT group_id, 'active', record, world.hash(record), to_timestamp({{now}}) FROM (
 SELECT group_id, format('{{{{"id": "%s", "status": "active", "orders": %s}}}}', group_id,
  {GROUP_JSON}) AS record FROM world.orders o WHERE n = grouped OFFSET 0
) AS whole
"""

INSERT_PATIENTS: Final = f"""
INSERT INTO patients_patient (id, team_id, client_user_id, created_on, first_name, last_name,
 name_key, email, phone_number, phone_digits, gender, dob, city, state, zip, {MIRRORED})
SELECT id, '7ea00000-0000-4000-8000-000000000001', 'client-' || p, to_timestamp(floor(made)),
 first_name, last_name, name_key, email, phone, reverse(substr(phone, 2)), gender, dob, city, state,
 zip, record, world.hash(record), to_timestamp({{now}}) FROM (
 SELECT *, format('{{{{"user_id": "%s", "team_id": "7ea00000-0000-4000-8000-000000000001",'
  ' "client_user_id": "client-%s", "created_on": "%s", "connected_sources": []}}}}',
  id, p, world.said(floor(made))) AS record FROM world.person OFFSET 0
) AS whole
"""

INSERT_DEMOGRAPHICS: Final = f"""
INSERT INTO patients_demographics (user_id, first_name, last_name, name_key, email, phone_number,
 phone_digits, gender, dob, first_line, second_line, city, state, zip, country, {MIRRORED})
SELECT id, first_name, last_name, name_key, email, phone, reverse(substr(phone, 2)), gender, dob,
 street, '', city, state, zip, 'US', record, world.hash(record, 3), to_timestamp({{now}}) FROM (
 SELECT *, format('{{{{"first_name": "%s", "last_name": "%s", "email": "%s",'
  ' "phone_number": "%s", "gender": "%s", "dob": "%s", "address": {{{{"first_line": "%s",'
  ' "city": "%s", "state": "%s", "zip": "%s", "country": "US"}}}}}}}}', first_name, last_name,
  email, phone, gender, dob, street, city, state, zip) AS record FROM world.person OFFSET 0
) AS whole
"""

INSERT_VISITS: Final = f"""
INSERT INTO orders_appointment (id, user_id, order_id, order_transaction_id, type, provider,
 provider_id, status, event_status, start_at, end_at, draw_day, iana_timezone, can_reschedule,
 first_line, second_line, city, state, zip_code, {MIRRORED})
SELECT visit_id, user_id, id, group_id, type, provider, '', visit, event_status,
 to_timestamp(starts), to_timestamp(starts + 1800), (to_timestamp(starts) AT TIME ZONE zone)::date,
 zone, visit = 'confirmed', street, '', city, state, zip, record, world.hash(record, 2),
 to_timestamp({{now}})
FROM (
 SELECT *, format('{{{{"id": "%s", "user_id": "%s", "order_id": "%s", "order_transaction_id": "%s",'
  ' "address": {{{{"first_line": "%s", "city": "%s", "state": "%s", "zip_code": "%s"}}}},'
  ' "start_at": %s, "end_at": %s, "iana_timezone": "%s", "type": "%s", "provider": "%s",'
  ' "status": "%s", "event_status": "%s", "can_reschedule": %s, "events": ['
  '{{{{"created_at": "%s", "status": "%s"}}}}]}}}}',
  visit_id, user_id, id, group_id, street, city, state, zip,
  coalesce('"' || world.said(starts) || '"', 'null'),
  coalesce('"' || world.said(starts + 1800) || '"', 'null'), zone, type, provider, visit,
  event_status, (visit = 'confirmed')::text, world.said(at), event_status) AS record
 FROM (
  SELECT o.visit_id, o.id, o.group_id, o.at, person.id AS user_id, street, city, state, zip, zone,
   CASE method WHEN 'walk_in_test' THEN 'patient_service_center' ELSE 'phlebotomy' END AS type,
   CASE method WHEN 'walk_in_test' THEN 'lab-north' ELSE 'mobile-north' END AS provider,
   visit, CASE visit WHEN 'confirmed' THEN 'scheduled' ELSE visit END AS event_status,
   CASE visit
    WHEN 'pending' THEN NULL
    WHEN 'confirmed' THEN floor({{now}} / 1800 + world.draw(n, 30, 48 * 24) - 48 * 3) * 1800
    ELSE floor((at + lived * 0.6) / 1800) * 1800
   END AS starts
  FROM world.orders o JOIN world.person USING (p) JOIN world.life ON life.i = o.life
  WHERE visit_id IS NOT NULL
 ) AS booked OFFSET 0
) AS told
"""

INSERT_VISIT_EVENTS: Final = """
INSERT INTO orders_appointmentevent (appointment_id, position, created_at, status)
SELECT visit_id, 0, to_timestamp(at), CASE visit WHEN 'confirmed' THEN 'scheduled' ELSE visit END
FROM world.orders o JOIN world.life ON life.i = o.life WHERE visit_id IS NOT NULL
"""

RESULTS: Final = """
CREATE UNLOGGED TABLE world.results AS
SELECT o.id, o.n, o.at, o.lived, o.p, o.test AS panel, life.result_status, (
 SELECT variant FROM world.result r WHERE r.panel = o.test AND r.look = life.interpretation
 ORDER BY (variant + o.n) % 7 LIMIT 1) AS variant
FROM world.orders o JOIN world.life ON life.i = o.life
WHERE result_status IS NOT NULL AND (o.n > {orders} * {results_share} OR life.open)
"""

INSERT_RESULTS: Final = f"""
INSERT INTO orders_result (order_id, status, interpretation, interpretation_received, laboratory,
 specimen_number, date_collected, date_received, date_reported, returned, missing, {MIRRORED})
SELECT id, result_status, reading, received, laboratory, specimen, collected, collected, reported,
 returned, missing, record, world.hash(record, 4), to_timestamp({{now}})
FROM (
 SELECT *, format(text, whole, born, collected, reported, specimen, result_status, user_id)
  AS record
 FROM (
  SELECT r.id, r.result_status, reading, received, text, laboratory, returned, missing,
   'S' || 100000000 + r.n AS specimen, world.said(at + floor(lived * 0.6)) AS collected,
   world.said(at + lived) AS reported, first_name || ' ' || last_name AS whole,
   to_char(dob, 'DD/MM/YYYY') AS born, person.id AS user_id
  FROM world.results r JOIN world.person USING (p) JOIN world.result USING (panel, variant)
 ) AS found OFFSET 0
) AS told
"""

INSERT_MARKERS: Final = """
INSERT INTO orders_resultmarker ({columns})
SELECT {values} FROM world.results r JOIN world.marker m USING (panel, variant)
"""

INSERT_COUNTS: Final = """
INSERT INTO orders_ordercount (bucket, low_level_status, method, change)
SELECT bucket, low_level_status, method, count(*) FROM orders_order GROUP BY 1, 2, 3
"""
INSERT_NAMES: Final = """
INSERT INTO orders_ordername (id, patient_name, recipient_name)
SELECT DISTINCT ON (names_id) names_id, patient_name, recipient_name FROM orders_order
ORDER BY names_id
"""
INSERT_PATIENT_WORDS: Final = """
INSERT INTO patients_patientnameword (word, user_id, name_key)
SELECT word, id, name_key FROM patients_patient, patients_name_words(name_key) AS word
ORDER BY 1, 2
"""
INSERT_HAPPENINGS: Final = """
INSERT INTO orders_orderactivity (transaction, kind, order_id, patient_id, after, bucket_after, at)
SELECT pg_current_xact_id()::text::bigint, 'order', id, user_id, low_level_status, bucket,
 last_event_at
FROM orders_order WHERE last_event_at > now() - interval '3 days'
"""
"""Triggers are off while the data set is built. These are the rows they would have written."""
NEWEST_RESULTS: Final = """
SELECT order_id FROM orders_result JOIN orders_order ON orders_order.id = order_id
ORDER BY updated_at DESC LIMIT %s
"""
