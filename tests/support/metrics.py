"""Reads a gateway's metrics page."""

import asyncio

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from support.gateway import Gateway


async def read_metrics(gateway: Gateway) -> dict[str, Metric]:
    """Return the families of the page by name, ``_total`` left out as the parser has it."""
    page = (await gateway.get("/metrics")).body.decode()
    return {family.name: family for family in text_string_to_metric_families(page)}


async def total(gateway: Gateway, name: str, **labels: str) -> float:
    """Return the sum of the series of a counter, or of a histogram's count, with these labels."""
    family = (await read_metrics(gateway))[name.removesuffix("_total").removesuffix("_count")]
    return sum(
        sample.value
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


async def reaches(gateway: Gateway, name: str, amount: float, **labels: str) -> None:
    """Return once a counter is that high; what is counted may happen behind an answer."""
    async with asyncio.timeout(10):
        while await total(gateway, name, **labels) < amount:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.02)
