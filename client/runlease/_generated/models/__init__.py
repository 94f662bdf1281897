"""Contains all the data models used in inputs/outputs"""

from .acquire_body import AcquireBody
from .acquire_body_labels import AcquireBodyLabels
from .checkpoint_ref import CheckpointRef
from .checkpoint_ref_body import CheckpointRefBody
from .delete_run_force import DeleteRunForce
from .enqueue_body import EnqueueBody
from .enqueue_body_labels import EnqueueBodyLabels
from .fence_checkpoint_body import FenceCheckpointBody
from .health import Health
from .lease import Lease
from .lease_body import LeaseBody
from .lifecycle import Lifecycle
from .lifecycle_edges import LifecycleEdges
from .lifecycle_edges_additional_property_item import (
    LifecycleEdgesAdditionalPropertyItem,
)
from .lifecycle_statuses_item import LifecycleStatusesItem
from .lifecycle_terminal_item import LifecycleTerminalItem
from .list_runs_lease import ListRunsLease
from .list_runs_status import ListRunsStatus
from .message_body import MessageBody
from .outcome import Outcome
from .outcome_body import OutcomeBody
from .problem import Problem
from .record_body import RecordBody
from .record_body_labels import RecordBodyLabels
from .record_body_status import RecordBodyStatus
from .record_lease_body import RecordLeaseBody
from .record_suspension_body import RecordSuspensionBody
from .renew_batch_body import RenewBatchBody
from .renew_body import RenewBody
from .renew_result import RenewResult
from .renew_results import RenewResults
from .resume_body import ResumeBody
from .run_page import RunPage
from .run_record import RunRecord
from .run_record_labels import RunRecordLabels
from .run_record_status import RunRecordStatus
from .suspension import Suspension
from .transition_body import TransitionBody
from .transition_body_to import TransitionBodyTo

__all__ = (
    "AcquireBody",
    "AcquireBodyLabels",
    "CheckpointRef",
    "CheckpointRefBody",
    "DeleteRunForce",
    "EnqueueBody",
    "EnqueueBodyLabels",
    "FenceCheckpointBody",
    "Health",
    "Lease",
    "LeaseBody",
    "Lifecycle",
    "LifecycleEdges",
    "LifecycleEdgesAdditionalPropertyItem",
    "LifecycleStatusesItem",
    "LifecycleTerminalItem",
    "ListRunsLease",
    "ListRunsStatus",
    "MessageBody",
    "Outcome",
    "OutcomeBody",
    "Problem",
    "RecordBody",
    "RecordBodyLabels",
    "RecordBodyStatus",
    "RecordLeaseBody",
    "RecordSuspensionBody",
    "RenewBatchBody",
    "RenewBody",
    "RenewResult",
    "RenewResults",
    "ResumeBody",
    "RunPage",
    "RunRecord",
    "RunRecordLabels",
    "RunRecordStatus",
    "Suspension",
    "TransitionBody",
    "TransitionBodyTo",
)
