"""How much must be read to follow one thing through the code: the goals, and whether the measure can be trusted."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tools.reading import Measured, Walk, in_reading_order, listed, measure, reader_for, steps_of, untrustworthy
from tools.source_index import Package
from tools.walks import CONTRACTS, SOURCE, WALKS


@pytest.fixture(scope="module")
def package() -> Package:
    return Package(SOURCE)


@pytest.fixture(scope="module")
def measured(package: Package) -> dict[str, Measured]:
    return {name: measure(walk, package, CONTRACTS) for name, walk in WALKS.items()}


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_stays_within_its_goal(name: str, measured: dict[str, Measured]) -> None:
    walk, found = WALKS[name], measured[name]
    assert len(found.files) <= walk.files, found.files
    assert found.lines <= walk.lines
    assert found.returns == []


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_leaves_nothing_out_and_holds_nothing_that_is_not_called(
    name: str, measured: dict[str, Measured]
) -> None:
    found = measured[name]
    assert found.undeclared == []
    assert found.uncalled == []
    assert found.unused == []


def test_contracts_are_public_and_documented(package: Package) -> None:
    every = listed(CONTRACTS + "".join(walk.contracts for walk in WALKS.values()))
    assert untrustworthy(every, package) == []


FILES = {
    "__init__.py": '"""A package."""',
    "shop.py": '''
        from toy.till import Till, Register
        from toy.tax import rate

        def sell(price):
            """Sell one thing."""
            till = Till(price)
            till.open()
            return close(till)

        def close(till: Till) -> float:
            return till.total * rate()
        ''',
    "till.py": '''
        from typing import Protocol
        from toy.tax import rounded
        from toy import shop

        class Printer(Protocol):
            def show(self) -> None: ...

        class Register:
            """Holds money."""

            printer: Printer

            def __init__(self, price):
                self.price = price

            @property
            def total(self):
                return rounded(self.price)

            def open(self):
                self.ring()
                self.printer.show()

            def ring(self):
                raise NotImplementedError

        class Till(Register):
            def ring(self):
                shop.close(self)
        ''',
    "tax.py": '''
        """Taxes."""

        def rate():
            """Share of the price."""
            return sorted([1, 2], key=_order)[0]

        def rounded(price):
            return price.clamp(0)

        def _order(number):
            return -number
        ''',
}


@pytest.fixture
def toy(tmp_path: Path) -> Package:
    folder = tmp_path / "toy"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(dedent(text).lstrip())
    return Package(folder)


def walked(toy: Package, tree: str, contracts: str = "", concrete: str = "") -> Measured:
    return measure(Walk(9, 99, dedent(tree), concrete, contracts), toy, "")


def test_lines_count_once_with_docstrings_and_decorators(toy: Package) -> None:
    assert walked(toy, "shop.py::sell").lines == 5
    assert walked(toy, "till.py::Register.total").lines == 3
    assert walked(toy, "till.py::Register\n  till.py::Register.total").lines == 18


def test_everything_that_is_used_is_found(toy: Package) -> None:
    assert walked(toy, "shop.py::sell").undeclared == [
        "shop.py::sell uses till.py::Register.__init__",
        "shop.py::sell uses till.py::Register.open",
        "shop.py::sell uses shop.py::close",
    ]
    assert walked(toy, "shop.py::close").undeclared == [
        "shop.py::close uses till.py::Register.total",
        "shop.py::close uses tax.py::rate",
    ]


def test_a_function_that_is_passed_on_counts_as_used(toy: Package) -> None:
    assert walked(toy, "tax.py::rate").undeclared == ["tax.py::rate uses tax.py::_order"]


def test_methods_of_tensors_and_protocols_are_not_followed(toy: Package) -> None:
    assert walked(toy, "tax.py::rounded").undeclared == []
    assert walked(toy, "till.py::Register.open").undeclared == ["till.py::Register.open uses till.py::Register.ring"]


def test_a_concrete_class_stands_for_its_base(toy: Package) -> None:
    found = walked(toy, "till.py::Register.open", concrete="till.py::Till")
    assert found.undeclared == ["till.py::Register.open uses till.py::Till.ring"]


def test_an_object_of_unknown_type_is_followed_by_the_name_of_the_method(toy: Package) -> None:
    path = toy.folder / "guess.py"
    path.write_text("from toy.till import Till\n\ndef guess(thing):\n    return thing.ring()\n")
    (found,) = walked(Package(toy.folder), "guess.py::guess").undeclared
    assert found == "guess.py::guess uses till.py::Register.ring (or 1 others of that name)"


@pytest.mark.parametrize("contracts", ["tax.py::rate\ntill.py::Register", "# files\ntax.py\ntill.py"])
def test_a_contract_ends_a_walk(toy: Package, contracts: str) -> None:
    found = walked(toy, "shop.py::close", contracts)
    assert (found.undeclared, found.unused) == ([], [])


def test_a_contract_that_nothing_uses_is_named(toy: Package) -> None:
    found = walked(toy, "tax.py::rate\n  tax.py::_order", "till.py::Till")
    assert found.unused == ["till.py::Till"]


def test_contracts_that_are_private_undocumented_or_missing_are_named(toy: Package) -> None:
    given = ["tax.py", "tax.py::rate", "till.py::Register.__init__"]
    wrong = ["tax.py::rounded", "tax.py::_order", "till.py", "nowhere.py", "till.py::Register.total"]
    assert untrustworthy([*given, *wrong], toy) == wrong


def test_going_back_to_the_callers_file_is_no_return_but_a_call_back_into_it_is(toy: Package) -> None:
    back = """
        shop.py::sell
          till.py::Register.open
          shop.py::close
            tax.py::rate
        """
    assert walked(toy, back).returns == []
    into = """
        shop.py::sell
          till.py::Register.open
            till.py::Till.ring
              shop.py::close
        """
    assert walked(toy, into).returns == ["shop.py::close"]


def test_the_next_call_of_the_user_begins_where_one_began_before(toy: Package) -> None:
    again = """
        shop.py::sell
          till.py::Register.open
        shop.py::close
          tax.py::rate
        """
    assert walked(toy, again).returns == []


def test_a_file_that_an_earlier_call_opened_stays_open(toy: Package) -> None:
    within = """
        shop.py::sell
          till.py::Register.open
        shop.py::close
          till.py::Register.total
        """
    assert walked(toy, within).returns == ["till.py::Register.total"]
    begun = """
        shop.py::sell
          till.py::Register.open
        tax.py::rate
        till.py::Register.total
        """
    assert walked(toy, begun).returns == ["till.py::Register.total"]


def test_the_order_of_the_code_counts_and_not_that_of_the_list(toy: Package) -> None:
    moved = """
        shop.py::sell
          shop.py::close
            till.py::Register.total
          till.py::Register.open
        """
    assert walked(toy, moved).returns == ["till.py::Register.total"]


def test_arguments_are_read_before_the_call(toy: Package) -> None:
    (toy.folder / "nested.py").write_text(
        "from toy import shop, tax\n\ndef outer(x):\n    return shop.close(tax.rounded(x))\n"
    )
    package = Package(toy.folder)
    walk = Walk(9, 99, "nested.py::outer\n  shop.py::close\n  tax.py::rounded")
    order = in_reading_order(steps_of(walk, package), reader_for(walk, package))
    assert [str(step) for step in order] == ["nested.py::outer", "tax.py::rounded", "shop.py::close"]


def test_a_step_that_its_caller_does_not_name_is_found(toy: Package) -> None:
    assert set(walked(toy, "shop.py::sell\n  tax.py::rounded").uncalled) == {"tax.py::rounded"}


def test_every_name_that_does_not_exist_is_told(toy: Package) -> None:
    with pytest.raises(ValueError, match=r"found none named shop.py::steal, bank.py::rob"):
        walked(toy, "shop.py::sell\n  shop.py::steal\n  bank.py::rob")
