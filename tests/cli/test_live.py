"""A page that follows a run."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from crystalrl import cli
from crystalrl.cli.live import changes, local, server, stamp
from crystalrl.cli.pages import live_page
from crystalrl.study.definition import Table
from crystalrl.study.execution import execute
from crystalrl.study.plan import plan
from crystalrl.study.run import Scored
from crystalrl.study.store import Store
from tests.inspected_run import TABLE
from tests.made_up_results import write_results


@contextmanager
def served(folder: Path) -> Iterator[str]:
    made = server(lambda address: live_page([folder], address), [folder], pause=0.05)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_port}"
    finally:
        made.shutdown()
        made.server_close()
        thread.join()


def test_the_page_changes_while_a_run_proceeds_and_is_told_so(tmp_path: Path) -> None:
    row = Table("Tiny", {"crystal": TABLE.rows["crystal"]})
    events = execute(plan(row.runs()), Store(tmp_path, row.to_toml()))
    told = (event for _, event in events if isinstance(event, Scored))
    next(told)  # untrained
    with served(tmp_path) as address:
        pages = [urlopen(address).read().decode()]
        line = HTTPConnection(address.removeprefix("http://"), timeout=60)
        line.request("GET", "/events")
        stream = line.getresponse()
        for _ in range(2):
            next(told)
            while b"data: changed" not in stream.readline():
                pass
            pages.append(urlopen(address).read().decode())
        list(events)
        pages.append(urlopen(address).read().decode())
        line.close()
    assert 'data-live="/events"' in pages[0]
    learnt = [re.findall(r"<td>crystal</td><td>2</td><td>(\d)</td><td>[^<]*</td><td>\d+ s ago", page) for page in pages]
    assert learnt == [["0"], ["1"], ["2"], []]  # finally it is a result, no longer running
    assert "After 2 tasks in sequence, crystal scores" in pages[-1]


def test_only_this_machine_is_served_under_its_own_name(tmp_path: Path) -> None:
    with served(tmp_path) as address, pytest.raises(HTTPError, match="403"):
        urlopen(Request(address, headers={"Host": "elsewhere.example:80"}))
    with served(tmp_path) as address, pytest.raises(HTTPError, match="404"):
        urlopen(f"{address}/../../etc/passwd")
    assert local("127.0.0.1:80")
    assert local("localhost:80")
    assert not local("127.0.0.1.example:80")


def test_a_page_that_cannot_be_shown_now_says_why_and_goes_on_to_follow(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "out")
    with served(folder) as address:
        (folder / "spec.toml").rename(tmp_path / "spec.toml")
        page = urlopen(address).read().decode()
        assert "wanted a folder of results, found no spec.toml" in page
        assert 'data-live="/events"' in page
        (tmp_path / "spec.toml").rename(folder / "spec.toml")
        assert "After 2 tasks in sequence" in urlopen(address).read().decode()


@pytest.mark.parametrize("command", ["report", "inspect"])
def test_a_folder_without_results_is_refused_at_once(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, str(tmp_path), "--live"])
    assert "found no spec.toml in it or below" in capsys.readouterr().err


def test_pages_are_no_change_but_results_are(tmp_path: Path) -> None:
    told = changes([tmp_path], 0.0)
    assert next(told) == b": nothing new\n\n"
    (tmp_path / "report.html").write_text("page")
    assert next(told) == b": nothing new\n\n"
    (tmp_path / "part.parquet").write_bytes(b"1")
    assert next(told) == b"data: changed\n\n"
    assert next(told) == b": nothing new\n\n"
    assert stamp([tmp_path / "part.parquet"]) == stamp([tmp_path])
