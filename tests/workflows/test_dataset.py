import pytest

from egretta.kernels.errors import FailureClass, SpecError
from egretta.workflows.dataset import discover


def test_paths_globs_and_list_files_are_found_in_order(workshop):
    for number, name in enumerate(["b2.root", "b1.root", "a.root", "c.root"]):
        workshop.hits(name, 3 + number, seed=number)
    (workshop.directory / "list.txt").write_text("# more\n\nc.root\n")
    campaign = workshop.campaign(["a.root", "b*.root"], input={"list_file": "list.txt"})
    dataset = discover(campaign.spec)
    assert [file.path.rpartition("/")[2] for file in dataset.files] == [
        "a.root",
        "b1.root",
        "b2.root",
        "c.root",
    ]
    assert [file.entries for file in dataset.files] == [5, 4, 3, 6]
    assert {(file.tree, file.kind) for file in dataset.files} == {("Velo", "hits")}
    assert dataset.bad_files == ()


def test_every_bad_file_is_named_at_once_with_its_class_and_what_to_do(workshop):
    good = workshop.hits("good.root", 30)
    (workshop.directory / "empty.root").write_bytes(b"")
    (workshop.directory / "truncated.root").write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    (workshop.directory / "text.root").write_text("this is not a ROOT file")
    names = ["good.root", "empty.root", "truncated.root", "text.root", "goood.root", "none*.root"]
    dataset = discover(workshop.campaign(names).spec)
    assert [file.path for file in dataset.files] == [str(good)]
    found = {bad.path.rpartition("/")[2]: bad for bad in dataset.bad_files}
    assert set(found) == set(names[1:])
    assert {bad.failure_class for bad in found.values()} == {FailureClass.DATA}
    assert "good.root" in found["goood.root"].hint
    assert all(bad.path in bad.message for bad in found.values())


def test_a_wrong_tree_names_the_near_miss(workshop):
    workshop.hits("a.root", 3)
    (bad,) = discover(workshop.campaign(["a.root"], input={"tree": "Vello"}).spec).bad_files
    assert "Vello" in bad.message
    assert "Velo" in bad.hint


def test_a_file_that_is_there_twice_is_refused(workshop, copy_file):
    path = workshop.hits("a.root", 3)
    with pytest.raises(SpecError, match="named twice"):
        discover(workshop.campaign(["a.root", "*.root"]).spec)
    copy_file(path, path.with_name("b.root"))
    with pytest.raises(SpecError, match="counted twice"):
        discover(workshop.campaign(["a.root", "b.root"]).spec)


def test_a_list_file_that_cannot_be_read_is_refused(workshop):
    with pytest.raises(SpecError, match=r"list_file.*cannot be read"):
        discover(workshop.campaign(["a.root"], input={"list_file": "absent.txt"}).spec)


def test_a_bug_in_a_reader_does_not_hide_the_other_files(workshop):
    def inspect(path, tree):
        raise ZeroDivisionError("oops")

    (bad,) = discover(workshop.campaign(["a.root"]).spec, inspect).bad_files
    assert (bad.failure_class, bad.error) == (FailureClass.CODE, "ZeroDivisionError")
