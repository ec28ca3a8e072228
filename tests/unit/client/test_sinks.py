"""What `open` takes for a sink."""

import json
import os

import pytest

import holdfast
from holdfast.client.sinks import sinks_given
from holdfast.worker.delivering_process import ProcessDeliverer
from holdfast.worker.delivering_threads import ThreadDeliverer
from holdfast.worker.functions import CannotName


def test_definitions_are_taken_as_they_are_and_paths_made_absolute():
    given = {
        "file": holdfast.FileSink("out/ledger.jsonl", tries=2),
        "web": holdfast.HttpSink("https://a.b/"),
        "mail": holdfast.FunctionSink("mail:send"),
        "rows": holdfast.PostgresSink("env:DSN", statement="select 1"),
    }
    sinks = sinks_given(given, "threads")
    path = os.path.abspath("out/ledger.jsonl")
    assert sinks.defined == {**given, "file": holdfast.FileSink(path, tries=2)}
    assert not sinks.functions


def test_any_function_will_do_where_it_is_called_in_this_program():
    seen = []
    sinks = sinks_given({"mail": seen.append}, "threads")
    assert sinks.defined == {"mail": holdfast.FunctionSink("here:mail")}
    assert sinks.functions == {"here:mail": seen.append}


def test_a_function_may_have_terms_of_its_own():
    seen = []
    sink = holdfast.FunctionSink(seen.append, tries=3)
    assert repr(sink).startswith("FunctionSink(target='here:")
    sinks = sinks_given({"mail": sink}, "threads")
    assert sinks.defined == {"mail": holdfast.FunctionSink("here:mail", tries=3)}
    assert sinks.functions == {"here:mail": seen.append}
    with pytest.raises(ValueError, match="module:function"):
        holdfast.FunctionSink(5)


def test_another_process_must_find_it_by_name():
    assert sinks_given({"mail": json.dumps}, "processes").defined == {
        "mail": holdfast.FunctionSink("json:dumps")
    }
    with pytest.raises(CannotName, match=r"sinks\['mail'\] is called in another process"):
        sinks_given({"mail": lambda effect: None}, "processes")


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"mail": 5}, TypeError, r"sinks\['mail'\] must be a FileSink.*not int"),
        ({"mail": "file"}, TypeError, "not str"),
        ({5: print}, TypeError, "must be text"),
        ({"a b": print}, ValueError, "cannot be called 'a b'"),
    ],
)
def test_a_mistake_is_told_before_the_folder_is_taken(tmp_path, given, error, told):
    with pytest.raises(error, match=told):
        holdfast.open(tmp_path / "data", sinks=given)
    assert not (tmp_path / "data").exists()


def test_effects_have_a_process_of_their_own_where_tasks_have():
    for executor, kind in (("threads", ThreadDeliverer), ("processes", ProcessDeliverer)):
        made = sinks_given({}, executor).deliverer(lambda: None, lambda: 0)
        assert isinstance(made, kind)
        made.close(0)
