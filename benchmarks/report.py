"""What all benchmarks share: their options, facts about the machine, tables, and a JSON file."""

import argparse
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path


def parse_arguments(description: str, **options: str) -> argparse.Namespace:
    """Parse the command line of a benchmark.

    Args:
        description: Shown by ``--help``; the first paragraph is enough.
        options: Further options that take a text, by name, with their help.

    Returns:
        ``smoke`` (bool), ``json`` (a path, or ``None``), and a text or ``None`` for each further
        option.
    """
    parser = argparse.ArgumentParser(description=description.strip().split("\n\n")[0])
    parser.add_argument("--smoke", action="store_true", help="a few seconds, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the results to this file")
    for name, text in options.items():
        parser.add_argument(f"--{name}", help=text)
    return parser.parse_args()


def machine_facts() -> dict[str, object]:
    """Return what a reader must know about the machine to compare figures."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "cpus": os.cpu_count(),
        "cpu": _cpu_model(),
        "load_average": os.getloadavg(),
        "platform": platform.platform(),
    }


def _cpu_model() -> str:
    """Return the processor's name as Linux has it; what Python knows elsewhere."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor()


def write(name: str, results: object, path: Path | None) -> None:
    """Write ``results`` of the benchmark ``name`` as JSON; do nothing without a ``path``."""
    if path is not None:
        report = {"benchmark": name, "machine": machine_facts(), "results": results}
        path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def print_table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> None:
    """Print ``rows`` under ``columns``: numbers to the right, floats with three decimals.

    A row without a column leaves it blank.
    """
    texts = [[_text(row.get(column, "")) for column in columns] for row in rows]
    lines = [list(columns), *texts]
    widths = [max(len(line[column]) for line in lines) for column in range(len(columns))]
    is_number = [
        all(isinstance(row.get(column, 0), int | float) for row in rows) for column in columns
    ]
    for line in lines:
        cells = zip(line, widths, is_number, strict=True)
        print("  ".join(f"{cell:{'>' if right else '<'}{width}}" for cell, width, right in cells))


def _text(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
