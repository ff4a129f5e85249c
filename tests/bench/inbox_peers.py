"""Applications and statements that the inbox is compared with: its limits, and the usual way."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")

import django

django.setup()

from celery import Celery  # noqa: E402
from django.conf import settings  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402
from rest_framework import serializers  # noqa: E402
from rest_framework.request import Request  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework.views import APIView  # noqa: E402

from backoffice.operations import request_buffer  # noqa: E402
from orders.models import Order, OrderEvent  # noqa: E402
from webhooks import endpoint, receiving  # noqa: E402
from webhooks.models import Event  # noqa: E402

CREATE_TABLE = (
    "CREATE TABLE IF NOT EXISTS bench_bare (id bigserial PRIMARY KEY, body bytea NOT NULL)"
)


def plain_insert(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The limit: read the same request on the same persistent connection, insert it durably and
    respond, without any verification."""
    if environ["REQUEST_METHOD"] == "POST":
        headers = endpoint._headers(environ)
        read = environ["wsgi.input"].read
        body = receiving._read_body(headers["content-length"], read, settings.WEBHOOK_MAX_BYTES)
        receiving._execute("INSERT INTO bench_bare (body) VALUES ($1)", (body,))
    status, headers_out, content = endpoint._response(204, "")
    start_response(f"{status} No Content", headers_out)
    return [content]


class Delivery(serializers.ModelSerializer[Event]):
    class Meta:
        model = Event
        fields = ("message_id", "event_type", "subject_id", "user_id")


class DrfView(APIView):
    """A DRF view with the ORM; Django closes the connection after each request."""

    authentication_classes = ()
    permission_classes = ()

    def post(self, request: Request) -> Response:
        from django.utils import timezone

        payload: Any = request.data
        message_id = request.headers["webhook-id"]
        if Event.objects.filter(message_id=message_id).exists():
            return Response(status=204)
        serializer = Delivery(
            data={
                "message_id": message_id,
                "event_type": payload["event_type"],
                "subject_id": payload["data"]["id"],
                "user_id": payload["user_id"],
            }
        )
        serializer.is_valid(raise_exception=True)
        serializer.save(sent_at=timezone.now(), body=json.dumps(payload).encode(), body_digest=b"")
        return Response(status=204)


urlpatterns = [path("webhooks/", csrf_exempt(DrfView.as_view()))]


def drf(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    return _drf(environ, start_response)


if os.environ.get("BENCH_PEER") == "drf":
    settings.ROOT_URLCONF = "tests.bench.inbox_peers"
    for _database in settings.DATABASES.values():
        _database["CONN_MAX_AGE"] = 0
_drf = get_wsgi_application()

plain_insert_web = request_buffer.Web(plain_insert)
drf_web = request_buffer.Web(drf)


# Applying

app = Celery("bench", broker=settings.CELERY_BROKER_URL)
app.conf.update(task_ignore_result=True, task_default_queue="bench", task_acks_late=True)


@app.task
def apply_one(number: int) -> None:
    """Apply one event with the ORM: the newer version wins, history is kept, the event is
    marked."""
    from django.db import transaction
    from django.utils.dateparse import parse_datetime

    with transaction.atomic():
        event = Event.objects.select_for_update().get(pk=number)
        record = json.loads(bytes(event.body or b""))["data"]
        updated_at = parse_datetime(record["updated_at"])
        assert updated_at is not None
        stored = Order.objects.select_for_update().filter(pk=record["id"]).first()
        if stored is None or stored.updated_at < updated_at:
            last = record["last_event"]
            Order.objects.update_or_create(
                pk=record["id"],
                defaults={
                    "team_id": record["team_id"],
                    "user_id": record["user_id"],
                    "created_at": record["created_at"],
                    "updated_at": updated_at,
                    "last_event_id": last["id"],
                    "last_event_at": last["created_at"],
                    "last_status": last["status"],
                    "status": record["status"],
                    "low_level_status": last["status"].split(".")[2],
                    "bucket": "closed",
                    "method": record["lab_test"]["method"],
                    "lab_test_id": record["lab_test"]["id"],
                    "lab_test_name": record["lab_test"]["name"],
                    "patient_first_name": record["patient_details"]["first_name"],
                    "patient_last_name": record["patient_details"]["last_name"],
                    "patient_name": "made up",
                    "patient_dob": record["patient_details"]["dob"],
                    "record": json.dumps(record),
                    "content_hash": b"x" * 16,
                    "as_of": event.received_at,
                },
            )
        for step in record["events"]:
            OrderEvent.objects.get_or_create(
                order_id=record["id"],
                event_id=step["id"],
                defaults={
                    "created_at": step["created_at"],
                    "status": step["status"],
                    "low_level_status": step["status"].split(".")[2],
                },
            )
        event.state, event.outcome = "done", "applied"
        event.save(update_fields=["state", "outcome"])


STATEMENT = """
WITH claimed AS MATERIALIZED (
 SELECT id, received_at, convert_from(body, 'UTF8')::jsonb -> 'data' AS data
 FROM webhooks_event WHERE state IN ('pending', 'retry') AND due_at <= now()
 ORDER BY due_at, id LIMIT 200 FOR UPDATE SKIP LOCKED
),
newest AS MATERIALIZED (
 SELECT DISTINCT ON (key) key, data, received_at, (data ->> 'updated_at')::timestamptz AS updated_at
 FROM (SELECT (data ->> 'id')::uuid AS key, * FROM claimed) AS keyed
 ORDER BY key, (data ->> 'updated_at')::timestamptz DESC
),
written AS (
 INSERT INTO orders_order AS held (id, record, content_hash, as_of, missing_since, team_id, user_id,
  created_at, updated_at, last_event_id, last_event_at, last_status, status, low_level_status,
  status_detail, bucket, method, origin, priority, activate_by, sample_id, lab_test_id,
  lab_test_name, billing_type, interpretation, has_abn, patient_first_name, patient_last_name,
  patient_name, patient_dob, patient_gender, recipient_name)
 SELECT key, data::text, decode(md5(data::text), 'hex'), received_at, NULL,
  (data ->> 'team_id')::uuid, (data ->> 'user_id')::uuid, (data ->> 'created_at')::timestamptz,
  updated_at, (data #>> '{last_event,id}')::bigint,
  (data #>> '{last_event,created_at}')::timestamptz, data #>> '{last_event,status}',
  split_part(data #>> '{last_event,status}', '.', 1),
  split_part(data #>> '{last_event,status}', '.', 3), data #>> '{last_event,status_detail}',
  'closed', data #>> '{lab_test,method}', data ->> 'origin', (data ->> 'priority')::bool,
  (data ->> 'activate_by')::date, data ->> 'sample_id', (data #>> '{lab_test,id}')::uuid,
  data #>> '{lab_test,name}', data ->> 'billing_type', data ->> 'interpretation',
  (data ->> 'has_abn')::bool, data #>> '{patient_details,first_name}',
  data #>> '{patient_details,last_name}',
  lower(concat_ws(' ', data #>> '{patient_details,first_name}',
   data #>> '{patient_details,last_name}')),
  (data #>> '{patient_details,dob}')::date, coalesce(data #>> '{patient_details,gender}', ''), ''
 FROM newest ORDER BY key
 ON CONFLICT (id) DO UPDATE SET record = excluded.record, content_hash = excluded.content_hash,
  as_of = excluded.as_of, missing_since = NULL, updated_at = excluded.updated_at,
  last_event_id = excluded.last_event_id, last_event_at = excluded.last_event_at,
  last_status = excluded.last_status, status = excluded.status,
  low_level_status = excluded.low_level_status, status_detail = excluded.status_detail,
  bucket = excluded.bucket, method = excluded.method, sample_id = excluded.sample_id,
  interpretation = excluded.interpretation, patient_name = excluded.patient_name
 WHERE (excluded.updated_at, excluded.last_event_id) > (held.updated_at, held.last_event_id)
 RETURNING id, user_id, low_level_status
),
steps AS (
 INSERT INTO orders_orderevent
  (order_id, event_id, created_at, status, low_level_status, status_detail)
 SELECT (data ->> 'id')::uuid, (step ->> 'id')::bigint, (step ->> 'created_at')::timestamptz,
  step ->> 'status', split_part(step ->> 'status', '.', 3), step ->> 'status_detail'
 FROM claimed, jsonb_array_elements(data -> 'events') AS step
 ON CONFLICT DO NOTHING
),
reasons AS (
 SELECT 'results' AS kind, id::text AS key FROM written
  WHERE low_level_status IN ('partial_results', 'completed')
 UNION SELECT 'appointment-psc', id::text FROM written
  WHERE low_level_status NOT IN ('ordered', 'requisition_created')
 UNION SELECT 'users', written.user_id::text FROM written
  LEFT JOIN patients_patient AS known ON known.id = written.user_id WHERE known.id IS NULL
),
marks AS (
 INSERT INTO sync_lookup AS held (kind, key, due_at) SELECT kind, key, now() FROM reasons
 ON CONFLICT (kind, key) DO UPDATE SET generation = held.generation + 1, attempts = 0,
  due_at = least(held.due_at, excluded.due_at)
),
told AS (
 INSERT INTO core_change (xact, topic, rows, subjects)
 SELECT pg_current_xact_id()::text::bigint, 'orders_order', count(DISTINCT id),
  array_agg(DISTINCT subject)
 FROM written, unnest(ARRAY[id, user_id]) AS subject HAVING count(*) > 0
)
UPDATE webhooks_event AS event SET state = 'done', outcome = 'applied',
 applied_at = clock_timestamp()
FROM claimed WHERE event.id = claimed.id
"""
"""The hand-written equivalent: what applying a batch of 200 order events does, in one statement."""
