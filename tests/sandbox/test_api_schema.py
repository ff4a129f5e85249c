"""The OpenAPI document describes what is served."""

from __future__ import annotations

import httpx
import pytest

from tests.sandbox.conftest import Sandbox

READ_SIDE = """
/v2/user /v2/user/{user_id} /v2/user/resolve/{client_user_id} /v2/team/users/search
/v2/user/{user_id}/info/latest /v2/user/{user_id}/insurance/latest /v2/user/providers/{user_id}
/v3/insurance/search/payor /v3/insurance/search/diagnosis /v2/introspect/historical_pull
/v2/introspect/resources /v3/lab_tests/labs /v3/lab_test /v3/lab_tests /v3/lab_tests/{lab_test_id}
/v3/lab_tests/markers /v3/lab_tests/{lab_test_id}/markers
/v3/lab_tests/{lab_id}/markers/{provider_id} /v3/lab_test/lab_account
/v2/team/{team_id}/physicians /v2/providers /v3/orders /v3/order/{order_id}
/v3/order/{order_id}/communication_settings /v3/order/{order_id}/result
/v3/order/{order_id}/result/metadata /v3/order/{order_id}/result/pdf
/v3/order/{order_id}/labels/pdf /v3/order/{order_id}/requisition/pdf /v3/order/{order_id}/abn_pdf
/v3/order/{order_id}/collection_instruction_pdf
/v3/lab_test/{lab_test_id}/collection_instruction_pdf /v3/order_transaction/{transaction_id}
/v3/order_transaction/{transaction_id}/result /v3/order_transaction/{transaction_id}/result/pdf
/v3/order/{order_id}/phlebotomy/appointment /v3/order/{order_id}/psc/appointment
/v3/order/phlebotomy/appointment/cancellation-reasons
/v3/order/psc/appointment/cancellation-reasons /v3/order/area/info /v3/order/psc/info
/v3/order/{order_id}/psc/info /v1/org/{org_id}/lab_account/{env}/{region}
""".split()  # noqa: SIM905 - a list of 43 lines says no more

ORDER_PARAMETERS = """
search_input start_date end_date updated_start_date updated_end_date status order_key
order_direction order_type is_critical interpretation order_activation_types user_id patient_name
shipping_recipient_name order_ids order_transaction_id page size
""".split()  # noqa: SIM905


def test_it_needs_no_key_and_names_every_call(sandbox: Sandbox) -> None:
    answer = httpx.get(f"{sandbox.base_url}/openapi.json")
    assert answer.status_code == 200
    document = answer.json()
    assert document["openapi"].startswith("3.")
    assert set(READ_SIDE) <= {path for path, item in document["paths"].items() if "get" in item}


def test_the_order_list_has_its_19_parameters(sandbox: Sandbox) -> None:
    operation = httpx.get(f"{sandbox.base_url}/openapi.json").json()["paths"]["/v3/orders"]["get"]
    assert [each["name"] for each in operation["parameters"]] == ORDER_PARAMETERS
    by_name = {each["name"]: each["schema"] for each in operation["parameters"]}
    assert by_name["size"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 50}
    assert len(by_name["status"]["items"]["enum"]) == 27


def test_operation_ids_are_unique(sandbox: Sandbox) -> None:
    paths = httpx.get(f"{sandbox.base_url}/openapi.json").json()["paths"]
    ids = [operation["operationId"] for item in paths.values() for operation in item.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", READ_SIDE)
def test_every_described_path_is_routed(sandbox: Sandbox, path: str) -> None:
    """An unrouted path would answer "Not Found" to any method; a routed one refuses the method."""
    concrete = path.replace("{", "").replace("}", "")
    assert sandbox.http.put(concrete).status_code == 405
