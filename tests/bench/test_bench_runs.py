"""The benchmark itself cannot rot: it runs, with numbers too small to mean anything."""

import json
from pathlib import Path

import pytest

from tests.bench.__main__ import main
from tests.bench.peers import __main__ as peers


@pytest.mark.usefixtures("cluster")
def test_the_benchmark_prints_every_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    small = ["--messages", "3", "--depth", "100", "--memory", "100"]
    main(["--rounds", "1", *small, "--json", str(file)])
    printed = capsys.readouterr().out
    told = json.loads(file.read_text(encoding="utf-8"))
    assert all(cost["value"] > 0 for cost in told["costs"])
    results = told["results"]
    assert len(results) == 20
    for result in results:
        assert result["title"] in printed
        assert all(floor["share"] > 0 for floor in result["floors"])


@pytest.mark.usefixtures("cluster")
def test_the_peers_benchmark_runs_ours_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    systems = ["--systems", "vulkan,vulkan_sqlite", "--only", "consume, one process"]
    peers.main(["--rounds", "1", "--messages", "3", *systems, "--json", str(file)])
    printed = capsys.readouterr().out
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    assert [list(figures) for figures in results.values()] == [["vulkan"], ["vulkan_sqlite"]]
    assert all(title in printed for title in results)
