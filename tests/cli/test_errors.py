"""How errors end a command."""

import pytest

from crystalrl.cli.errors import RunError, end


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ValueError("steps: wanted 1, got 0"), 2, "crystalrl: steps: wanted 1, got 0\n"),
        (
            PermissionError(13, "Permission denied", "out"),
            2,
            "crystalrl: out: wanted a file or folder that can be used, got: Permission denied\n",
        ),
        (FileNotFoundError("out: wanted results, found none"), 2, "crystalrl: out: wanted results, found none\n"),
        (RunError("run failed: fire"), 1, "crystalrl: run failed: fire\n"),
        (ZeroDivisionError("by zero"), 1, "crystalrl: ZeroDivisionError: by zero (--debug shows where)\n"),
        (KeyboardInterrupt(), 130, "crystalrl: interrupted\n"),
        (
            KeyboardInterrupt("`crystalrl resume a` continues"),
            130,
            "crystalrl: interrupted. `crystalrl resume a` continues\n",
        ),
    ],
)
def test_every_error_is_one_message_on_stderr_with_its_status(
    error: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end(error, debug=False).code == status
    said = capsys.readouterr()
    assert said.err.startswith(message)
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_for_debugging_the_traceback_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError) as raised:
        raise ValueError("no")
    assert end(raised.value, debug=True).code == 2
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("Traceback")
    assert last == "crystalrl: no"
