"""Where a job may run, beside which and after what, in the words people wrote it in."""

from holdfast.cli.output import View
from holdfast.core.ids import JobId
from holdfast.core.placing import ALL_TASKS, After, Constraint, constraint_text
from holdfast.wire.wishes import after_text


def tied(view: View) -> list[tuple[str, object]]:
    """What a job is tied to; nothing where it is tied to nothing."""
    after = ", ".join(after_text(_after(told)) for told in view.get("after") or ())
    if after and view["blocked"]:
        after += " (not yet)"
    fate = view.get("on_failed_parent")
    parent = view.get("parent")
    if parent and view["detached"]:
        parent = f"{parent} (detached)"
    return [
        ("after", after),
        ("if it cannot", "it waits" if fate == "wait" else None),
        ("parent", parent),
        ("user", view.get("user")),
    ]


def _after(told: View) -> After:
    index = ALL_TASKS if told["task"] is None else told["task"]
    return After(JobId(told["job"]), index, told["condition"])


def placed(spec: View) -> list[tuple[str, object]]:
    """Where its tasks may run, and beside which."""
    placing = spec.get("placing")
    if placing is None:
        return []
    wishes = [
        Constraint(told["attribute"], told["operator"], tuple(told["values"]), told["weight"])
        for told in placing["constraints"]
    ]
    keys = [f"{key}={most}" if most else key for key, most in placing["keys"].items()]
    gang = "yes" + (f", by {placing['gang_by']}" if placing["gang_by"] else "")
    return [
        ("requires", ", ".join(constraint_text(wish) for wish in wishes if not wish.weight)),
        ("prefers", ", ".join(constraint_text(wish) for wish in wishes if wish.weight)),
        ("spread", placing["spread"]),
        ("at once", ", ".join(keys)),
        ("gang", gang if placing["gang"] else None),
        ("preempts", "yes" if placing["preempt"] else None),
    ]


def named(resources: View) -> list[str]:
    """Named resources as `1.5 licence`."""
    return [f"{amount:g} {name}" for name, amount in resources.items()]
