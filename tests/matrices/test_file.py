"""Every file type, every kind of broken file, and real files against their published counts."""

import csv
import gzip
import hashlib
import io
import lzma
import tarfile

import numpy as np
import pytest
from scipy.io import mmwrite
from scipy.sparse import coo_array, csr_array, random_array, save_npz

from spmm_roofline import contracts
from spmm_roofline.matrices import build, build_all, expand, file, load
from spmm_roofline.matrices.canonical import MatrixError, canonical
from spmm_roofline.matrices.file import read

REAL = "%%MatrixMarket matrix coordinate real general\n"
PATTERN = "%%MatrixMarket matrix coordinate pattern general\n"


@pytest.fixture
def sample():
    matrix = random_array((13, 29), density=0.2, rng=np.random.default_rng(3), format="csr")
    assert matrix.nnz == 75
    return matrix


def read_csr(path):
    return canonical(read(path), str(path)).csr


def as_text(matrix):
    stream = io.BytesIO()
    mmwrite(stream, matrix, precision=17)
    return stream.getvalue()


def write_smtx(path, csr):
    lines = [f"{csr.shape[0]}, {csr.shape[1]}, {csr.nnz}", *(" ".join(map(str, a)) for a in (csr.indptr, csr.indices))]
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(("suffix", "opener"), [("mtx", open), ("mtx.gz", gzip.open), ("mtx.xz", lzma.open)])
def test_matrix_market_plain_and_compressed(tmp_path, sample, suffix, opener):
    path = tmp_path / f"sample.{suffix}"
    with opener(path, "wb") as stream:
        stream.write(as_text(sample))
    assert np.array_equal(read_csr(path).toarray(), sample.toarray())


def test_matrix_market_fields_and_symmetries(tmp_path):
    path = tmp_path / "a.mtx"
    body = "% a comment\n\n3 3 3\n1 1 4\n2 1 5\n3 2 6\n"
    path.write_text("%%MatrixMarket matrix coordinate integer symmetric\n" + body)
    assert read_csr(path).toarray().tolist() == [[4, 5, 0], [5, 0, 6], [0, 6, 0]]
    path.write_text("%%MatrixMarket MATRIX Coordinate Real Skew-Symmetric\n" + "3 3 2\n2 1 5\n3 2 -6\n")
    assert read_csr(path).toarray().tolist() == [[0, -5, 0], [5, 0, 6], [0, -6, 0]]
    path.write_text("%%MatrixMarket matrix coordinate pattern symmetric\n" + "3 3 2\n2 1\n3 3\n")
    csr = read_csr(path)
    assert (csr != 0).toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert ((np.abs(csr.data) >= 0.5) & (np.abs(csr.data) < 1.5)).all()


def test_matrix_market_zeros_and_duplicates_are_counted(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text(REAL + "2 2 4\n1 1 0.0\n1 2 1.5\n1 2 2.5\n2 2 0\n")
    matrix = canonical(read(path), "a")
    assert matrix.csr.toarray().tolist() == [[0, 4], [0, 0]]
    assert (matrix.stored_entries, matrix.explicit_zeros, matrix.duplicates) == (4, 2, 1)


def test_smtx(tmp_path, sample):
    path = tmp_path / "layer.smtx"
    write_smtx(path, sample)
    csr = read_csr(path)
    assert np.array_equal(csr.toarray() != 0, sample.toarray() != 0)
    assert len(np.unique(csr.data)) == csr.nnz
    empty = csr_array((3, 4))
    write_smtx(path, empty)
    assert (read_csr(path).shape, read_csr(path).nnz) == ((3, 4), 0)


def test_npz_of_scipy(tmp_path, sample):
    path = tmp_path / "sample.npz"
    for matrix in (sample, sample.tocsc(), sample.tocoo()):
        save_npz(path, matrix)
        assert np.array_equal(read_csr(path).toarray(), sample.toarray())


def test_npz_edge_list_may_repeat_edges(tmp_path):
    path = tmp_path / "graph.npz"
    np.savez(path, src_li=np.int32([0, 2, 2, 0]), dst_li=np.int32([1, 0, 2, 1]), num_nodes=4)
    matrix = canonical(read(path), "graph")
    assert (matrix.csr.toarray() != 0).astype(int).tolist() == [[0, 1, 0, 0], [0] * 4, [1, 0, 1, 0], [0] * 4]
    assert (matrix.stored_entries, matrix.duplicates) == (4, 1)
    assert np.abs(matrix.csr.data).max() < 1.5  # a pattern's values are not counts


def rutherford_boeing(kind, csc, values="(3E26.17)", shape=None):
    """Text of a Rutherford-Boeing file as the collection lays it out."""

    def lines(numbers, form, per_line):
        text = [form % number for number in numbers]
        return ["".join(text[i : i + per_line]) for i in range(0, len(text), per_line)]

    pointers = lines(csc.indptr + 1, "%6d", 13)
    indices = lines(csc.indices + 1, "%6d", 13)
    data = [] if kind[0] == "p" else lines(csc.data, "%26.17E", 3)
    m, k = shape or csc.shape
    counts = [len(pointers), len(indices), len(data)]
    head = [
        "a title".ljust(72) + "key",
        "".join(f"{count:14d}" for count in (sum(counts), *counts)),
        f"{kind:14s}" + "".join(f"{count:14d}" for count in (m, k, csc.nnz, 0)),
        f"{'(13I6)':16s}{'(13I6)':16s}{values if data else '':20s}",
    ]
    return "\n".join(head + pointers + indices + data) + "\n"


def test_rutherford_boeing(tmp_path, sample):
    path = tmp_path / "a.rb"
    path.write_text(rutherford_boeing("rra", sample.tocsc()))
    assert np.array_equal(read_csr(path).toarray(), sample.toarray())
    path.write_text(rutherford_boeing("pra", sample.tocsc()))
    assert np.array_equal(read_csr(path).toarray() != 0, sample.toarray() != 0)
    square = np.tril(sample.toarray()[:, :13])
    for kind, expected in (
        ("rsa", square + np.tril(square, -1).T),
        ("rza", np.tril(square, -1) - np.tril(square, -1).T),
    ):
        lower = coo_array(square if kind == "rsa" else np.tril(square, -1)).tocsc()
        path.write_text(rutherford_boeing(kind, lower).replace("E-", "D-").replace("E+", "D+"))
        assert np.array_equal(read_csr(path).toarray(), expected)


def test_my_own_matrix_goes_all_the_way(tmp_path, sample):
    path = tmp_path / "my own matrix.mtx.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(as_text(sample))
    (spec,) = expand({"name": "own", "matrices": {"file": [{"path": str(path)}]}}, {})
    assert spec == {"matrix": "my_own_matrix", "source": "file", "kind": "unclassified", "path": str(path)}
    npz, json, log = (tmp_path / "out" / f"{spec['matrix']}.{suffix}" for suffix in ("npz", "json", "log"))
    build_all([spec], {}, [str(npz), str(json)], {str(json): "this"}, str(log))
    loaded = load(npz)
    assert np.array_equal(loaded.toarray(), sample.toarray())
    assert (loaded.data.dtype, loaded.indices.dtype, loaded.indptr.dtype) == (np.float64, np.int32, np.int32)
    assert loaded.has_canonical_format
    (row,) = contracts.read_rows([json], "matrices").to_dict("records")
    assert (row["m"], row["k"], row["nnz"], row["origin"]) == (13, 29, 75, str(path))
    assert row["made_of"] == "this"
    assert "13 x 29, 75 non-zeros" in log.read_text()
    first = npz.read_bytes()
    build(spec, {}, str(npz), str(json))
    assert npz.read_bytes() == first
    assert sorted(each.name for each in npz.parent.iterdir()) == sorted(each.name for each in (npz, json, log))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/x y.mtx.gz", "x_y"),
        ("_x.smtx", "x"),
        (".mtx", "matrix"),
        ("ä.rb", "matrix"),
        ("$(id);`x` && y.mtx", "id___x_____y"),
        ("a.b.npz", "a.b"),
    ],
)
def test_a_file_gives_a_safe_name(path, name):
    (spec,) = expand({"name": "own", "matrices": {"file": [{"path": path}]}}, {})
    assert spec["matrix"] == name


def test_zero_nonzeros_is_written(tmp_path):
    path = tmp_path / "empty.mtx"
    path.write_text(REAL + "4 6 0\n")
    (spec,) = expand({"name": "own", "matrices": {"file": [{"path": str(path), "name": "none", "kind": "x"}]}}, {})
    build(spec, {}, str(tmp_path / "none.npz"), str(tmp_path / "none.json"))
    assert load(tmp_path / "none.npz").shape == (4, 6)
    (row,) = contracts.read_rows([tmp_path / "none.json"], "matrices").to_dict("records")
    assert (row["nnz"], row["empty_rows"], row["tiles_16x16"], row["alpha_fraction"]) == (0, 4, 0, 0)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.mtx", "", "the file is empty"),
        ("a.mtx", "\n", "the file is empty"),
        ("a.mtx", "1 1 1\n1 1 1.0\n", "malformed header '1 1 1'; a Matrix Market file starts with"),
        ("a.mtx", "%%MatrixMarket matrix coordinate real\n1 1 1\n1 1 1\n", "malformed header '%%MatrixMarket matrix"),
        (
            "a.mtx",
            "%%MatrixMarket matrix coordinate quaternion general\n1 1 1\n1 1 1\n",
            "a field of real, integer, pattern",
        ),
        ("a.mtx", REAL + "2 2\n1 1 1\n", "the size line is '2 2', but must be 'rows columns entries'"),
        ("a.mtx", REAL, "the size line is ''"),
        ("a.mtx", REAL + "2 -2 1\n1 1 1\n", "the size line is '2 -2 1'"),
        ("a.mtx", REAL + "2 2 3\n1 1 1\n2 2 2\n", "[Tt]runcated"),
        (
            "a.mtx",
            REAL + "2 2 2\n1 1 1\n2\n",
            "a.mtx, line 4: '2' is no entry; an entry of this real matrix is 'row col",
        ),
        (
            "a.mtx",
            REAL + "2 2 1\n1 1 1\n2 2 2\n",
            "the size line announces 1 entries, and the file holds 2; correct the size line, or copy the file",
        ),
        ("a.mtx", REAL + "2 2 1\n1 1 one\n", "line 3: '1 1 one' is no entry"),
        ("a.mtx", REAL + "% x\n\n2 2 1\n\n3 1 1\n", "line 6: '3 1 1' is no entry; .* rows from 1 to 2"),
        ("a.mtx", REAL + "2 2 1\n1 0 1\n", "'1 0 1' is no entry; .* columns from 1 to 2"),
        ("a.mtx", REAL + "2 2 2\n1 1 1\n% x\n2 2 1\n", "line 4: '% x' is no entry"),
        ("a.mtx", REAL + "2 2 1\n1 1 1,5\n", "line 3: '1 1 1,5' is no entry"),
        ("a.mtx", REAL + "2 2 1\n1 1 1.5D+02\n", "line 3: '1 1 1.5D.02' is no entry"),
        ("a.mtx", REAL + "2 2 1\n1 1 1.5-300\n", "line 3: '1 1 1.5-300' is no entry"),
        ("a.mtx", REAL.replace("real", "integer") + "2 2 1\n1 1 1.5\n", "an entry of this integer matrix"),
        (
            "a.mtx",
            PATTERN + "2 2 1\n1 3\n",
            "line 3: '1 3' is no entry; an entry of this pattern matrix is 'row column',",
        ),
        ("a.mtx", REAL.replace("matrix", "vector") + "2 2 1\n1 1 1\n", "malformed header '%%MatrixMarket vector"),
        ("a.mtx", REAL + "2 2 2\n1 1 1e308\n1 1 1e308\n", "duplicates summed: 1 value is not finite"),
        ("a.mtx", REAL + "2 2 1\n1 2 nan\n", "1 value is not finite, the first is nan in row 0, column 1"),
        ("a.mtx", REAL + "2 2 1\n1 2 -inf\n", "1 value is not finite, the first is -inf"),
        ("a.mtx", REAL + "2 2 1\n1 2 1e999\n", "not finite|out of range"),
        ("a.mtx", REAL + "0 2 0\n", "the matrix is 0 x 2; a product needs at least one row"),
        ("a.mtx", REAL + "2 0 0\n", "the matrix is 2 x 0"),
        ("a.mtx", REAL + "3000000000 2 0\n", "32-bit indices"),
        ("a.mtx", PATTERN + "2 2 999999999999999\n1 1\n", "truncated: 999999999999999 entries are announced"),
        ("a.mtx", "%%MatrixMarket matrix array real general\n1 1\n1\n", "dense matrix"),
        (
            "a.mtx",
            "%%MatrixMarket matrix foo real general\n1 1 1\n1 1 1\n",
            "malformed header .*; a Matrix Market file starts with",
        ),
        ("a.mtx", REAL.replace("general", "symmetric") + "4 3 1\n4 1 1\n", "says symmetric, but a matrix of 4 x 3"),
        (
            "a.mtx",
            "%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 2\n",
            "complex values are not supported; store the real part",
        ),
        ("a.mtx", "%%MatrixMarket matrix coordinate complex hermitian\n1 1 1\n1 1 1 0\n", "complex values"),
        (
            "a.smtx",
            "2, 2\n0 1 1\n0\n",
            "a.smtx, line 1: a .smtx file begins with 'rows, columns, non-zeros', not '2, 2'",
        ),
        ("a.smtx", "2, 2, 1\n0 1 1\n1.5\n", "a.smtx, line 3: '1.5' is no whole number"),
        ("a.smtx", "2, 2, 1\n0 1\n0\n", "the 2 row offsets do not cut 1 entries into 2 rows"),
        ("a.smtx", "2, 2, 2\n0 1 2\n0\n", "truncated .smtx file: it announces 2 column indices and holds 1"),
        ("a.smtx", "2, 2, 1\n", "do not cut"),
        ("a.smtx", "2, 2, 2\n0 1 2\n0 7\n", "column index 7"),
        ("a.smtx", "2, 2, 2\n0 3 2\n0 1\n", "do not cut"),
        ("a.smtx", "0, 2, 0\n0\n\n", "the matrix is 0 x 2"),
        ("a.npz", "no zip archive", "no .npz file, which is a zip archive; save the matrix with"),
        ("a.rb", "title\n", "broken Rutherford-Boeing file: lines 1 to 4 are no header"),
        ("a.txt", "1 2 3", "not a matrix file; its name must end in one of .mtx, .mtx.gz"),
    ],
)
def test_wrong_files_say_what_is_wrong(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(MatrixError, match=message) as refused:
        read_csr(path)
    assert str(path) in str(refused.value)


def test_the_name_need_not_tell_how_a_file_is_stored(tmp_path, sample):
    text = as_text(sample)
    for name, content in (
        ("packed.mtx", gzip.compress(text)),
        ("packed.MTX", lzma.compress(text)),
        ("plain.mtx.gz", text),
        ("windows.mtx", b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        assert np.array_equal(read_csr(path).toarray(), sample.toarray())


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 99])
def test_words_are_the_same_however_they_are_cut(chunk):
    for text, whole in ((b"1 1 1.5-300\n", False), (b" 12 1\t1.5e-30 \n", True), (b"1 1 1,5\n", False)):
        assert file._words(memoryview(text), "real", chunk) == (3, whole)


def test_a_value_of_an_integer_matrix_may_have_a_point(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text(REAL.replace("real", "integer") + "2 2 2\n1 1 3.0\n2 2 -4\n")
    assert read_csr(path).toarray().tolist() == [[3, 0], [0, -4]]


def test_a_folder_is_no_matrix_file(tmp_path):
    (tmp_path / "a.mtx").mkdir()
    with pytest.raises(MatrixError, match=r"a\.mtx: is a folder, not a matrix file"):
        read(tmp_path / "a.mtx")


def test_truncated_compression_and_missing_file(tmp_path, sample):
    for suffix, module in (("mtx.gz", gzip), ("mtx.xz", lzma)):
        path = tmp_path / f"a.{suffix}"
        with module.open(path, "wb") as stream:
            stream.write(as_text(sample))
        path.write_bytes(path.read_bytes()[:-60])
        with pytest.raises(MatrixError, match="the compressed file is damaged or incomplete; copy or download it"):
            read(path)
    with pytest.raises(MatrixError, match="there is no such file; a relative path counts from"):
        read(tmp_path / "nowhere.mtx")


def test_npz_that_is_no_sparse_matrix(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, weights=np.eye(3))
    with pytest.raises(MatrixError, match=r"holds weights; needed are scipy.sparse.save_npz's arrays, or src_li"):
        read(path)
    save_npz(path, csr_array(np.eye(2) * 1j))
    with pytest.raises(MatrixError, match="complex values are not supported"):
        read(path)
    with path.open("wb") as file:
        np.save(file, np.eye(3))
    with pytest.raises(MatrixError, match=r"no \.npz file, which is a zip archive; save the matrix with scipy"):
        read(path)
    parts = {"format": b"csr", "shape": (2, 4), "indptr": [0, 1, 2]}
    np.savez(path, **parts, indices=[0, 4], data=[1.0, 2.0])
    with pytest.raises(MatrixError, match=r"make no csr matrix: indices must be < 4; save the matrix with scipy"):
        read(path)
    np.savez(path, **parts, indices=[0, 1], data=["a", "b"])
    with pytest.raises(MatrixError, match=r"damaged, or its arrays make no sparse matrix; save the matrix with scipy"):
        read(path)
    for wrong in ({"src_li": [0, 1, 2]}, {"src_li": [0, 1.5]}, {"num_nodes": [3, 4]}):
        np.savez(path, **({"src_li": [0, 1], "dst_li": [1, 1], "num_nodes": 3} | wrong))
        with pytest.raises(MatrixError, match="must be whole numbers, as many of one as of the other"):
            read(path)
    np.savez(path, src_li=[0, 5], dst_li=[1, 1], num_nodes=3)
    with pytest.raises(MatrixError, match="row index 5"):
        read_csr(path)


@pytest.mark.parametrize("wrong", [{"format": 5}, {"shape": 5}, {"shape": (2.5, 4)}])
def test_arrays_that_scipy_cannot_interpret_make_no_sparse_matrix(tmp_path, wrong):
    parts = {"format": b"csr", "shape": (2, 4), "indptr": [0, 1, 2], "indices": [0, 1], "data": [1.0, 2.0]}
    np.savez(tmp_path / "a.npz", **(parts | wrong))
    with pytest.raises(MatrixError, match="damaged, or its arrays make no sparse matrix"):
        read(tmp_path / "a.npz")


def test_an_array_of_one_dimension_is_no_matrix(tmp_path):
    save_npz(tmp_path / "a.npz", coo_array(np.array([0, 1.0, 2])))
    with pytest.raises(MatrixError, match="holds an array of dimension 1, not a matrix; give it rows and columns"):
        read(tmp_path / "a.npz")


def test_rutherford_boeing_that_is_not_supported(tmp_path, sample):
    path = tmp_path / "a.rb"
    for kind, message in (
        ("cra", "complex values are not supported"),
        ("rse", "unassembled elements"),
        ("xra", "type 'xra' is no Rutherford-Boeing matrix"),
    ):
        path.write_text(rutherford_boeing(kind, sample.tocsc()))
        with pytest.raises(MatrixError, match=message):
            read(path)
    whole = rutherford_boeing("rra", sample.tocsc()).splitlines()
    path.write_text("\n".join(whole[:-3]))
    with pytest.raises(MatrixError, match="truncated: 75 numbers announced"):
        read(path)
    path.write_text("\n".join([*whole[:4], whole[4].replace("     1", "     9", 1), *whole[5:]]))
    with pytest.raises(MatrixError, match="the 30 column pointers do not cut 75 entries into 29 columns"):
        read(path)
    path.write_text("\n".join([*whole[:-1], "x" * 78]))
    with pytest.raises(MatrixError, match=rf"line {len(whole)}: 'XXX.*' is no number"):
        read(path)
    path.write_text(rutherford_boeing("rra", sample.tocsc(), values="(free)"))
    with pytest.raises(MatrixError, match=r"the number format '\(free\)' is not understood"):
        read(path)


# --- real matrices ----------------------------------------------------------------------------------------------------

SAMPLE = {
    "west0479",  # explicit zeros
    "well1850",  # rectangular
    "ibm32",  # pattern
    "bcsstk01",  # symmetric
    "G27",  # integer
    "dwt_992",  # symmetric pattern
    "add20",  # a third of the entries are zeros
    "ch7-6-b5",  # rectangular, wide
    "delaunay_n15",
    "mult_dcop_02",
    "as-caida20071105",
    "cora",  # repeated edges
}


def test_real_matrices_have_their_published_counts(real_data):
    with (real_data / "INDEX.csv").open() as stream:
        index = [row for row in csv.DictReader(stream) if row["name"] in SAMPLE]
    assert {row["name"] for row in index} == SAMPLE
    for row in index:
        matrix = canonical(read(real_data / row["file"]), row["name"])
        assert matrix.csr.shape == (int(row["rows"]), int(row["cols"])), row["name"]
        assert matrix.csr.nnz + matrix.explicit_zeros == int(row["nnz_full"]), row["name"]
        if row["note"].startswith("index nnz"):
            assert matrix.csr.nnz == int(row["note"].split()[2]), row["name"]
        if row["file"].endswith(".npz"):
            assert matrix.stored_entries == int(row["stored_entries"]), row["name"]


def test_real_layers_of_dlmc(real_data, tmp_path):
    config = {"matrices": {"cache": str(tmp_path), "dlmc": {"archive": str(real_data / "dlmc-subset.tar.xz")}}}
    layer = "body_encoder_layer_0_self_attention_multihead_attention_q"
    wanted = {"model": "transformer", "methods": "all", "sparsities": [0.9], "layers": [layer]}
    specs = expand({"name": "test", "matrices": {"dlmc": wanted}}, config)
    assert len(specs) == 4
    for spec in specs:
        npz, json = tmp_path / "a.npz", tmp_path / "a.json"
        build(spec, config, str(npz), str(json))
        csr = load(npz)
        assert csr.shape == (512, 512)
        if "magnitude" in spec["matrix"]:
            assert csr.nnz / 512**2 == pytest.approx(0.1, abs=0.001)
        else:
            assert 0.02 < csr.nnz / 512**2 < 0.3
        (row,) = contracts.read_rows([json], "matrices").to_dict("records")
        suffix = "_fully_connected" if "pruning" in spec["path"] else ""
        assert row["origin"] == f"dlmc/transformer/{spec['path'].split('/')[1]}/0.9/{layer}{suffix}.smtx"
    with pytest.raises(MatrixError, match=r"DLMC has no transformer/magnitude_pruning/0.9/nothing.smtx"):
        build({**specs[0], "path": "transformer/magnitude_pruning/0.9/nothing.smtx"}, config, "", "")


def test_an_archive_of_dlmc_on_disk_is_checked(tmp_path, sample):
    layer, archive = tmp_path / "layer.smtx", tmp_path / "dlmc.tar.gz"
    write_smtx(layer, sample)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(layer, "dlmc/transformer/random_pruning/0.5/layer.smtx")
    whole = archive.read_bytes()
    wanted = {"model": "transformer", "methods": ["random_pruning"], "sparsities": [0.5], "layers": ["layer"]}
    (spec,) = expand({"name": "test", "matrices": {"dlmc": wanted}}, {})
    settings = {"archive": str(archive), "sha256": "0" * 64}
    config = {"matrices": {"cache": str(tmp_path / "cache"), "dlmc": settings}}

    def refused(message):
        with pytest.raises(MatrixError, match=message):
            build(spec, config, tmp_path / "a.npz", tmp_path / "a.json")
        assert not (tmp_path / "cache/dlmc").exists()

    refused(r"dlmc.tar.gz: does not have the SHA-256 0+ of the configuration")
    settings["sha256"] = None
    for at in (-8, len(whole) // 2):  # the checksum, and the data
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        archive.write_bytes(damaged)
        refused(r"dlmc.tar.gz: cannot be unpacked: ")
    archive.write_bytes(whole)
    settings["sha256"] = hashlib.sha256(whole).hexdigest()
    build(spec, config, tmp_path / "a.npz", tmp_path / "a.json")


def test_dlmc_folder_and_archives_that_are_not_it(tmp_path, sample):
    folder = tmp_path / "mine" / "transformer" / "random_pruning" / "0.5"
    folder.mkdir(parents=True)
    write_smtx(folder / "layer.smtx", sample)
    wanted = {"model": "transformer", "methods": ["random_pruning"], "sparsities": [0.5], "layers": ["layer"]}
    (spec,) = expand({"name": "test", "matrices": {"dlmc": wanted}}, {})
    settings = {"archive": "unused", "folder": str(tmp_path / "mine")}
    build(spec, {"matrices": {"cache": str(tmp_path), "dlmc": settings}}, tmp_path / "a.npz", tmp_path / "a.json")
    assert load(tmp_path / "a.npz").nnz == sample.nnz

    archive = tmp_path / "other.tar.gz"
    for member, message in (
        ("elsewhere/layer.smtx", "holds no folder dlmc"),
        ("../dlmc/layer.smtx", "cannot be unpacked"),
    ):
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(folder / "layer.smtx", member)
        config = {"matrices": {"cache": str(tmp_path / "cache"), "dlmc": {"archive": str(archive)}}}
        with pytest.raises(MatrixError, match=message):
            build(spec, config, tmp_path / "b.npz", tmp_path / "b.json")
        assert not (tmp_path / "cache" / "dlmc").exists()
    config["matrices"]["dlmc"]["archive"] = str(tmp_path / "absent.tar.gz")
    with pytest.raises(MatrixError, match="there is no such archive"):
        build(spec, config, tmp_path / "b.npz", tmp_path / "b.json")
