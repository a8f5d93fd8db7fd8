"""vLLM's door to Stepwell: the class that ``--kv-transfer-config`` names.

Needs vLLM 0.32, whose connector interface (v1) is still changing. This module only translates:
what is decided stands in `scheduler`, what is done in `worker`.
"""

import platform
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
import vllm
from huggingface_hub import snapshot_download
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
)
from vllm.forward_context import ForwardContext
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.v1.attention.backend import AttentionMetadata
from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.kv_cache_interface import KVCacheConfig
from vllm.v1.metrics.cache_hit_source import CacheHitSource
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import Request

from stepwell.core.clock import SystemClock
from stepwell.core.errors import ConfigError
from stepwell.stores.kv.files import BlockFiles
from stepwell.vllm.asked import Asked, Lora, Scopes
from stepwell.vllm.distrust import Distrust
from stepwell.vllm.facts import Machine, check_supported, scope_of
from stepwell.vllm.loading import Shard
from stepwell.vllm.lookups import Lookups
from stepwell.vllm.pages import Pages
from stepwell.vllm.plan import StepPlan
from stepwell.vllm.saving import MAX_BYTES_A_STEP
from stepwell.vllm.scheduler import SchedulerSide
from stepwell.vllm.searching import Search
from stepwell.vllm.settings import parse_settings
from stepwell.vllm.stats import ConnectorStats, PrometheusStats, StatsSource
from stepwell.vllm.weights import WeightsFiles
from stepwell.vllm.worker import Done, WorkerSide

_log = init_logger(__name__)

_SILENT_SECONDS = 60.0
"""Between two warnings: what goes wrong goes wrong for every block."""

_LEAVES_KV = frozenset({"FINISHED_STOPPED", "FINISHED_LENGTH_CAPPED", "FINISHED_ABORTED"})
"""Names of vLLM's states after which a request's pages hold what its tokens say."""


@dataclass
class StepwellMetadata(KVConnectorMetadata):  # type: ignore[misc]
    """A plan on its way from the scheduler to the workers."""

    plan: StepPlan


class StepwellConnector(KVConnectorBase_V1):  # type: ignore[misc]
    """Keeps the KV blocks of requests as files, and loads prefixes from there.

    vLLM makes one in the scheduler's process and one in each worker's. What cannot be loaded is
    computed; what cannot be saved is not saved.
    """

    _cache_hit_source = CacheHitSource.DISK

    def __init__(
        self, vllm_config: VllmConfig, role: KVConnectorRole, kv_cache_config: KVCacheConfig
    ) -> None:
        """Open the folder.

        Raises:
            ConfigError: Something in vLLM's configuration rules the connector out.
            StoreUnavailable: The folder cannot be written to.
        """
        super().__init__(vllm_config, role, kv_cache_config)
        check_supported(vllm_config, kv_cache_config)
        self._settings = parse_settings(vllm_config.kv_transfer_config.kv_connector_extra_config)
        self._files = BlockFiles(self._settings.path, max_bytes=self._settings.max_bytes)
        self._stats = StatsSource()
        self._silent_until = 0.0
        self._scheduler: SchedulerSide | None = None
        self._worker: WorkerSide | None = None
        self._is_idle = True
        self._done = Done(frozenset(), frozenset(), frozenset())
        if role is KVConnectorRole.SCHEDULER:
            self._scheduler = SchedulerSide(
                self._lookups(),
                Distrust(SystemClock()),
                block_tokens=vllm_config.cache_config.block_size,
                early_blocks=max(1, MAX_BYTES_A_STEP // _block_bytes(kv_cache_config)),
            )

    # In the scheduler's process.

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """Return how many tokens can be loaded; they come between steps, not in one."""
        asked = _asked_of(request)
        tokens = 0 if asked is None else self._scheduling.match(asked, num_computed_tokens)
        return tokens, bool(tokens)

    def update_state_after_alloc(
        self, request: Request, blocks: KVCacheBlocks, num_external_tokens: int
    ) -> None:
        """Plan the load for which there is room now."""
        pages = blocks.get_block_ids()[0]
        self._scheduling.allocate(request.request_id, pages, num_external_tokens)

    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> StepwellMetadata:
        """Hand the plan to the workers, together with prompts that are being answered."""
        running = scheduler_output.scheduled_cached_reqs
        for request_id, tokens in zip(running.req_ids, running.num_computed_tokens, strict=True):
            self._scheduling.go_on(request_id, tokens, partial(self._pages_of, request_id))
        return StepwellMetadata(self._scheduling.take_plan())

    def update_connector_output(self, connector_output: KVConnectorOutput) -> None:
        """Note which loads are over."""
        self._scheduling.loaded(
            connector_output.finished_recving or (), connector_output.invalid_block_ids or ()
        )

    def request_finished(
        self, request: Request, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        """Plan to save what the request leaves; its pages stay until they are copied."""
        is_sound = request.status.name in _LEAVES_KV and not request.num_nans_in_logits
        # The keys and values of the last token are computed with the next, which does not come.
        certain = min(
            request.num_computed_tokens - request.num_in_flight_tokens, request.num_tokens - 1
        )
        must_stay = self._scheduling.finish(
            request.request_id, request.all_token_ids, block_ids, certain if is_sound else 0
        )
        return must_stay, None

    def reset_cache(self) -> bool:
        """Use nothing that was kept so far: vLLM asks for this when weights were exchanged."""
        self._scheduling.use(self._lookups(since=uuid4().hex))
        return True

    @property
    def requires_kv_delivery(self) -> bool:
        """A save that is lost is a miss, no more."""
        return False

    # In a worker's process.

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        """Get to know the pages."""
        parallel = self._vllm_config.parallel_config
        self._worker = WorkerSide(
            self._files,
            Pages(kv_caches, pages=self._kv_cache_config.num_blocks),
            Shard(parallel.rank % parallel.world_size, parallel.world_size),
            load_timeout_seconds=self._settings.load_timeout_seconds,
            clock=SystemClock(),
        )

    def start_load_kv(self, forward_context: ForwardContext, **kwargs: object) -> None:
        """Begin with what the scheduler has planned."""
        self._is_idle = forward_context.attn_metadata is None
        self._working.start(self._get_connector_metadata().plan)

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Do nothing: a request only runs when all its layers are loaded."""

    def save_kv_layer(
        self,
        layer_name: str,
        kv_layer: torch.Tensor,
        attn_metadata: AttentionMetadata,
        **kwargs: object,
    ) -> None:
        """Do nothing: pages are copied in `get_finished`, after the step."""

    def wait_for_save(self) -> None:
        """Do nothing: pages are copied in `get_finished`, after the step."""

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str], set[str]]:
        """Copy pages in and out, and return whose are copied out and whose are copied in."""
        self._done = self._working.step(is_idle=self._is_idle)
        return set(self._done.saved), set(self._done.loaded)

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Return the pages that vLLM must compute itself."""
        return set(self._done.failed_pages)

    # In both.

    def get_kv_connector_stats(self) -> ConnectorStats | None:
        """Return what happened since the last call."""
        side = self._scheduler or self._worker
        news = None if side is None else self._stats.news(side.counted())
        if news is not None:
            self._warn()
        return news

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> ConnectorStats:
        """Make stats of what another process has sent."""
        return ConnectorStats(data or {})

    @classmethod
    def build_prom_metrics(cls, *arguments: Any) -> PrometheusStats:  # noqa: ANN401
        """Register the metrics."""
        return PrometheusStats(*arguments)

    def shutdown(self) -> None:
        """Write what waits, for some seconds at most."""
        for side in (self._scheduler, self._worker):
            if side is not None:
                side.close()

    def _pages_of(self, request_id: str) -> list[int]:
        pages: list[int] = self._kv_cache_manager.get_block_ids(request_id)[0]
        return pages

    def _warn(self) -> None:
        error, now = self._files.take_last_error(), SystemClock().monotonic()
        if error and now >= self._silent_until:
            self._silent_until = now + _SILENT_SECONDS
            _log.warning("KV blocks in %s: %s", self._settings.folder, error)

    @property
    def _scheduling(self) -> SchedulerSide:
        assert self._scheduler is not None  # noqa: S101  (vLLM's contract)
        return self._scheduler

    @property
    def _working(self) -> WorkerSide:
        assert self._worker is not None  # noqa: S101
        return self._worker

    def _lookups(self, *, since: str = "") -> Lookups:
        """Return what tells which blocks are kept.

        Args:
            since: If given, only of those that are saved from now on by this process.
        """
        config = self._vllm_config
        digests = WeightsFiles(self._settings.path / "digests")
        weights = self._settings.weights_version or digests.model_version(_model_folder(config))
        base = scope_of(config, self._kv_cache_config, _machine(), weights + since)
        search = Search(
            self._files,
            Scopes(base, digests.adapter_version),
            block_tokens=config.cache_config.block_size,
            shards=config.parallel_config.world_size,
        )
        timeout_seconds = self._settings.lookup_timeout_seconds
        return Lookups(search, timeout_seconds=timeout_seconds, clock=SystemClock())


def _asked_of(request: Request) -> Asked | None:
    """Return what a request asks; ``None`` if its KV depends on more than can be named."""
    lora = request.lora_request
    if (
        request.mm_features
        or request.prompt_embeds is not None
        or request.pooling_params is not None
        or request.resumable
        # Weights that change under a name and number that stay.
        or (lora is not None and lora.load_inplace)
    ):
        return None
    return Asked(
        request.request_id,
        request.all_token_ids,
        request.cache_salt,
        None if lora is None else Lora(lora.lora_name, lora.lora_int_id, lora.lora_path),
    )


def _block_bytes(config: KVCacheConfig) -> int:
    """Return what a block takes in all layers on one worker."""
    (group,) = config.kv_cache_groups
    return int(len(group.layer_names) * group.kv_cache_spec.page_size_bytes)


def _machine() -> Machine:
    device = str(current_platform.get_device_name())
    if current_platform.is_cpu():
        # The attention kernels lay keys out for the instructions they use.
        can = torch.cpu.get_capabilities()
        device = f"{platform.machine()} amx={can.get('amx_tile')} avx512={can.get('avx512_f')}"
    return Machine(vllm.__version__, device)


def _model_folder(config: VllmConfig) -> Path:
    """Return where the weights are, without asking anybody over the network."""
    model = config.model_config
    if Path(model.model).is_dir():
        return Path(model.model)
    try:
        return Path(snapshot_download(model.model, revision=model.revision, local_files_only=True))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot find the weights of {model.model}: set weights_version in"
            " kv_connector_extra_config to a text that changes with them"
        ) from error
