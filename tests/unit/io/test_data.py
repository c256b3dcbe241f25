"""Readers of data: all formats give the same data, and errors name the place in the file."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile

import numpy as np
import polars as pl
import pytest
import scipy.sparse

from levelprox import SparseRegressor
from levelprox.exceptions import FileFormatError, InvalidInputError
from levelprox.io.arrays import read_npz
from levelprox.io.data import Reading, format_of, read_data
from levelprox.io.table import read_csv

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 3))
Y = np.round(RNG.standard_normal(20), 3)
NAMES = ["a", "b c", "d"]


def frame():
    return pl.DataFrame({**dict(zip(NAMES, X.T, strict=True)), "y": Y})


def csv_file(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def as_csv(path):
    frame().write_csv(path)


def as_tsv(path):
    frame().write_csv(path, separator="\t")


def as_parquet(path):
    frame().write_parquet(path)


def as_npz(path):
    np.savez_compressed(path, X=np.asfortranarray(X), y=Y)


def as_sparse_npz(path):
    made = scipy.sparse.csr_array(X)
    parts = {"data": made.data, "indices": made.indices, "indptr": made.indptr, "shape": made.shape}
    np.savez(path, format=b"csr", y=Y, **parts)


def as_libsvm(path):
    lines = (
        f"{b!r} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row))
        for row, b in zip(X.tolist(), Y.tolist(), strict=True)
    )
    path.write_text("\n".join(lines) + "\n")


WRITERS = {
    "a.csv": as_csv,
    "a.tsv": as_tsv,
    "a.parquet": as_parquet,
    "a.npz": as_npz,
    "b.npz": as_sparse_npz,
    "a.svm": as_libsvm,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_gives_the_same_bits(name, tmp_path):
    WRITERS[name](tmp_path / name)
    data = read_data(tmp_path / name)
    found = data.X.toarray() if scipy.sparse.issparse(data.X) else np.asarray(data.X)
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(data.y, Y)
    assert data.shape == X.shape and data.path == tmp_path / name
    assert data.feature_names == (NAMES if name in ("a.csv", "a.tsv", "a.parquet") else None)


@pytest.mark.parametrize(("ending", "packed"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_compressed_text_is_read_as_it_is(ending, packed, tmp_path):
    as_csv(tmp_path / "a.csv")
    (tmp_path / f"a.csv{ending}").write_bytes(packed((tmp_path / "a.csv").read_bytes()))
    np.testing.assert_array_equal(np.asarray(read_data(tmp_path / f"a.csv{ending}").X), X)


def test_names_of_columns_reach_the_model(tmp_path):
    as_csv(tmp_path / "a.csv")
    data = read_data(tmp_path / "a.csv")
    assert SparseRegressor(n_features=1).fit(data.X, data.y).feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,city,y\n1,2,3\n1,Bern,4\n", r"column 'city' holds text, 'Bern' in row 2; drop it \(drop=\['city'\]\)"),
        ("a,my city,y\n1,x,3\n", r"drop it \(drop=\['my city'\]\)"),
        ("a,b,c,y\n1,u,v,3\n", r"columns 'b', 'c' hold no numbers; drop them \(drop=\['b', 'c'\]\)"),
        ("a,b,y\n1,1_000,3\n", r"column 'b' holds text, '1_000' in row 1: write it as 1000; drop it"),
        ('a,b,y\n1,"1,000",3\n', "write it as 1000"),
        (f"a,y\n1,{2**53 + 1}\n2,3\n", r"column 'y' holds whole numbers beyond 2\^53"),
        ("a,y\n1,u\n2,  \n", "row 2, column 'y' is missing"),
        ("a,b,y\n1,2,3\n1,,4\n", r"row 2, column 'b' is missing \(1 in this column\)"),
        ("a,b,y\n1,2,3\n,,\n4,5,6\n", "row 2, column 'a' is missing"),
        ("a,b,y\n1,2,3\nNA,NA,NA\n", "row 2, column 'a' is missing"),
        ('a,b,y\n\n1,"2",3\r\n\r\n\n,,\n', "row 5, column 'a' is missing"),
        ("a,b,y\n1,2,3\n1,NA,4\n", "row 2, column 'b' is missing"),
        ("a,b,y\n1,,3\n1,,4\n", r"row 1, column 'b' is missing \(2 in"),
        ("a,b,y\n1,2,3\n1,2,\n", "row 2, column 'y' is missing"),
        ("a,b,y\n1,1e999,3\n", "row 1, column 'b' is inf"),
        ("a,b,y\n1,inf,3\n", "row 1, column 'b' is inf"),
        ("a,b,y\n1,2,3,4\n", r"a row has more fields than the first line; .* \(separator\)"),
        ("a,a,y\n1,2,3\n", "more than one column is called 'a'"),
        (",,y\n1,2,3\n", "columns are called ''"),
        ("1,2,3\n4,5,6\n", r"the first line holds numbers, no names; is there no header\? \(header=False\)"),
        ("a;b;y\n1;2;3\n", r"only one column; are fields separated otherwise\? \(separator\)"),
        ("", "empty"),
        ("a,b,y\n", "there are no rows"),
        ("a,b,y\n\n\n", "there are no rows"),
        (b"a,b,y\n1,\xff\xfe,3\n", "not UTF-8; convert it"),
        ("y\n1\n", "only one column"),
    ],
)
def test_what_cannot_be_used_of_a_csv_file_is_named(text, message, tmp_path):
    with pytest.raises(FileFormatError, match=f"^{tmp_path}/a.csv: .*{message}"):
        read_data(csv_file(tmp_path / "a.csv", text))


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfa,b,y\r\n1,2,3\r\n4,5,6\r\n",
        b"a,b,y\n1,2,3\n4,5,6",
        b"a, b, y\n 1 , 2, 3\n4, 5 ,6\n",
        b'"a","b","y"\n"1","2","3"\n4,5,6\n',
        b"a,b,y\n1,2,3\n\n4,5,6\n\n",
        b"a,b,y\n1,2,3\n4,5.0,6e0\n",
        b'\r\n\na,b,y\r\n\r\n1,"2",3\r\n\n"4",5,6\n\n\n',
    ],
    ids=["bom and crlf", "no last newline", "blanks", "quotes", "empty lines", "mixed", "empty lines and quotes"],
)
def test_csv_as_people_write_it(text, tmp_path):
    data = read_data(csv_file(tmp_path / "a.csv", text))
    np.testing.assert_array_equal(np.asarray(data.X), [[1, 2], [4, 5]])
    np.testing.assert_array_equal(data.y, [3, 6])
    assert data.feature_names == ["a", "b"]


def test_integers_too_long_for_any_integer_are_read_as_numbers(tmp_path):
    data = read_data(csv_file(tmp_path / "a.csv", f"a,y\n{'9' * 60},1\n1,2\n"))
    assert np.asarray(data.X)[0, 0] == float("9" * 60)


def test_an_empty_line_within_quotes_is_part_of_a_word(tmp_path):
    data = read_data(csv_file(tmp_path / "a.csv", 'a,y\n1,"u\n\nv"\n\n2,w\n'))
    assert data.y.tolist() == ["u\n\nv", "w"] and data.shape == (2, 1)


def test_words_and_truth_values_are_classes(tmp_path):
    assert read_data(csv_file(tmp_path / "a.csv", "a,y\n1, no\n2,yes \n")).y.tolist() == ["no", "yes"]
    assert read_data(csv_file(tmp_path / "a.csv", "a,y\n1,true\n2,false\n")).y.tolist() == [True, False]
    as_words = pl.DataFrame({"a": [1, 2], "y": pl.Series(["no", "yes"], dtype=pl.Categorical)})
    as_words.write_parquet(tmp_path / "a.parquet")
    assert read_data(tmp_path / "a.parquet").y.tolist() == ["no", "yes"]


def test_columns_are_dropped_weighed_and_chosen_by_name(tmp_path):
    path = csv_file(tmp_path / "a.csv", "id,w,a,price\nx,1,2,3\ny,2,5,6\n")
    data = read_data(path, how=Reading("price", drop=["id"], weight="w"))
    assert data.feature_names == ["a"] and data.left_out == ("id",) and data.weight.tolist() == [1, 2]
    assert read_data(path, features=["a"], needs_target=False).y is None
    np.testing.assert_array_equal(np.asarray(read_data(path, "price", features=["a", "w"]).X), [[2, 1], [5, 2]])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (Reading(), r"which column is the target\? \(target='NAME'; there are columns 'id', 'w', 'a', 'price'\)"),
        (Reading("prize"), "no column 'prize' for the target; did you mean 'price'"),
        (Reading("price", drop=["zzzz"]), "no column 'zzzz' for the columns to drop"),
        (Reading("price", weight="price"), "must be different"),
        (Reading("price", drop=["id", "w", "a"]), "no column is left"),
    ],
)
def test_columns_that_are_not_there_are_named(how, message, tmp_path):
    path = csv_file(tmp_path / "a.csv", "id,w,a,price\nx,1,2,3\ny,2,5,6\n")
    with pytest.raises(InvalidInputError, match=message):
        read_data(path, how=how)


def test_a_file_without_header_has_numbered_columns(tmp_path):
    path = csv_file(tmp_path / "a.csv", "1;2;3\n4;5;6\n")
    data = read_data(path, how=Reading("3", header=False, separator=";"))
    assert data.feature_names == ["column_1", "column_2"] and data.y.tolist() == [3, 6]


def test_numbers_beyond_those_that_floating_point_tells_apart_are_warned_of(tmp_path):
    with pytest.warns(UserWarning, match=r"a.csv: column 'id' holds whole numbers beyond 2\^53, which are rounded"):
        read_data(csv_file(tmp_path / "a.csv", f"id,y\n{2**53 + 1},1\n1,2\n"))
    read_data(csv_file(tmp_path / "a.csv", f"id,y\n{2**53 - 1},1\n{1 - 2**53},2\n"))


@pytest.mark.parametrize("kind", [pl.Int8, pl.UInt16, pl.Int32, pl.Int64, pl.UInt64])
def test_integers_of_every_width_are_numbers(kind, tmp_path):
    pl.DataFrame({"a": pl.Series([1, 2], dtype=kind), "y": pl.Series([3, 4], dtype=kind)}).write_parquet(
        tmp_path / "a.parquet"
    )
    assert read_data(tmp_path / "a.parquet").y.tolist() == [3, 4]


def test_numbers_stored_as_text_are_told_from_words(tmp_path):
    pl.DataFrame({"a": ["1.5", "2"], "y": [1, 2]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(
        FileFormatError, match=r"column 'a' holds numbers as text, '1.5' in row 1: store them as numbers"
    ):
        read_data(tmp_path / "a.parquet")


def test_parquet_that_is_none_or_damaged(tmp_path):
    as_parquet(tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for text in (b"", b"a,b\n1,2\n", whole[:-7], whole[: len(whole) // 2]):
        (tmp_path / "a.parquet").write_bytes(text)
        with pytest.raises(FileFormatError, match=r"a\.parquet: "):
            read_data(tmp_path / "a.parquet")


def test_more_or_fewer_features_than_the_model_has(tmp_path):
    for name in ("a.npz", "a.svm"):
        WRITERS[name](tmp_path / name)
        with pytest.raises(FileFormatError, match=name):
            read_data(tmp_path / name, features=2)
    as_csv(tmp_path / "a.csv")
    with pytest.raises(FileFormatError, match="the model's feature 'e' and 1 more are missing"):
        read_data(tmp_path / "a.csv", features=["a", "e", "f"])
    assert read_data(tmp_path / "a.csv", features=["d"]).left_out == ("a", "b c")


def test_kinds_of_files_by_name():
    assert format_of("x.CSV.gz") == "csv" and format_of("a.b.svm.xz") == "libsvm"
    with pytest.raises(FileFormatError, match="which kind of data is it"):
        format_of("data.xlsx")


def npz(path, **members):
    """A zip archive of members as they are."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def npy(array, shape=None):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue().replace(str(np.shape(array)).encode(), str(shape or np.shape(array)).encode())


def test_npz_that_claims_too_much_holds_objects_or_is_damaged(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.array([[{}]], object), y=[1])
    with pytest.raises(FileFormatError, match="holds Python objects"):
        read_npz(path)
    with pytest.raises(FileFormatError, match="does not fill"):
        read_npz(npz(path, X=npy(np.zeros(9), (10**12,))))
    with pytest.raises(FileFormatError, match=r"would be \d+ bytes, of"):
        read_npz(npz(path, X=npy(np.zeros(2**22))))
    with pytest.raises(FileFormatError, match="at most 64"):
        read_npz(npz(path, **{f"a{i}": npy(np.zeros(1)) for i in range(65)}))
    with pytest.raises(FileFormatError, match="no header of an array"):
        read_npz(npz(path, X=b"nothing"))
    with pytest.raises(FileFormatError, match="no npz file"):
        read_npz(csv_file(path, "a,b\n"))


def test_truncations_of_an_npz_file_are_errors(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=X[:3], y=Y[:3])
    whole = path.read_bytes()
    for length in range(0, len(whole), 4):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError):
            read_npz(path)


def test_flipped_bytes_of_an_npz_file_are_errors_or_harmless(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=X[:2], y=Y[:2])
    whole = bytearray(path.read_bytes())
    for place in range(0, len(whole), 4):
        changed = bytearray(whole)
        changed[place] ^= 0x15
        path.write_bytes(changed)
        try:
            found = read_npz(path)
        except FileFormatError:
            continue
        for key, array in (("X", X[:2]), ("y", Y[:2])):
            if key in found:  # else it has another name now
                np.testing.assert_array_equal(found[key], array)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(3)}, "X has 20 rows, y has shape"),
        ({"X": np.zeros(20)}, "X must hold numbers in rows and columns"),
        ({"X": np.full((20, 2), "a")}, "X must hold numbers"),
        ({"y": Y + 1j}, "y must hold numbers, truth values or words, got complex128"),
        ({"y": None}, "there is no array 'y', but X"),
        ({"format": b"coo", "indptr": np.zeros(3)}, "not CSR or CSC"),
    ],
)
def test_arrays_that_do_not_go_together(change, message, tmp_path):
    members = {"X": X, "y": Y, **change}
    np.savez(tmp_path / "a.npz", **{key: value for key, value in members.items() if value is not None})
    with pytest.raises(FileFormatError, match=message):
        read_data(tmp_path / "a.npz")


def test_a_sparse_matrix_with_indices_out_of_range(tmp_path):
    parts = {"data": [1.0], "indices": [7], "indptr": [0, 1], "shape": [1, 3]}
    np.savez(tmp_path / "a.npz", format=b"csr", y=[1.0], **parts)
    with pytest.raises(FileFormatError, match="do not agree"):
        read_data(tmp_path / "a.npz")


def test_odd_names_are_plain_paths(tmp_path):
    for name in ("a*.csv", "http:x.csv", "a\nb.csv", "-a.csv", "é.csv"):
        as_csv(tmp_path / name)
        assert read_csv(tmp_path / name).names == [*NAMES, "y"]
    as_csv(tmp_path / "b.csv")
    (tmp_path / "link.csv").symlink_to("b.csv")
    (tmp_path / "d").mkdir()
    assert read_csv(tmp_path / "d" / ".." / "link.csv").names == [*NAMES, "y"]
