"""Runs and their labels.

A revision is never edited once it was released: it says what the tables were then, in its own
words, and a test compares where the revisions lead with `schema.metadata`.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

COUNTER_MAX = 2**53 - 1


def upgrade() -> None:
    exact = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "runs",
        sa.Column("run_id", exact, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("fencing_token", sa.BigInteger, nullable=False),
        sa.Column("lease_owner", exact),
        sa.Column("lease_acquired_at", sa.BigInteger),
        sa.Column("lease_expires_at", sa.BigInteger),
        sa.Column("lease_grant_key", sa.Text),
        sa.Column("lease_subject", sa.Text),
        sa.Column("checkpoint_key", sa.Text),
        sa.Column("checkpoint_snapshot_version", sa.BigInteger),
        sa.Column("checkpoint_saved_at", sa.BigInteger),
        sa.Column("outcome_code", sa.Text),
        sa.Column("outcome_message", sa.Text),
        sa.Column("suspended_at", sa.BigInteger),
        sa.Column("pending_approval_ids", sa.Text),
        sa.Column("labels", sa.Text),
        sa.Column("max_attempts", sa.Integer),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", sa.BigInteger),
        sa.CheckConstraint("length(run_id) BETWEEN 1 AND 512", name="run_id_length"),
        sa.CheckConstraint(f"version BETWEEN 0 AND {COUNTER_MAX}", name="version_range"),
        sa.CheckConstraint(
            "(deleted_at IS NULL) = (version > 0) AND (deleted_at IS NULL) = (status IS NOT NULL)",
            name="tombstone_whole",
        ),
        sa.CheckConstraint(f"attempt BETWEEN 1 AND {COUNTER_MAX}", name="attempt_range"),
        sa.CheckConstraint(
            f"fencing_token BETWEEN 0 AND {COUNTER_MAX}", name="fencing_token_range"
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'suspended', 'completed', 'failed', 'cancelled')",
            name="status_known",
        ),
        sa.CheckConstraint(
            "(lease_owner IS NULL) = (lease_expires_at IS NULL)"
            " AND (lease_owner IS NULL) = (lease_acquired_at IS NULL)"
            " AND (lease_owner IS NULL OR (status IS NOT NULL AND status = 'running'))"
            " AND (lease_owner IS NOT NULL OR lease_grant_key IS NULL)"
            " AND (lease_owner IS NOT NULL OR lease_subject IS NULL)",
            name="lease_whole",
        ),
        sa.CheckConstraint("lease_expires_at >= lease_acquired_at", name="lease_forward"),
        sa.CheckConstraint(
            "(checkpoint_key IS NULL) = (checkpoint_snapshot_version IS NULL)"
            " AND (checkpoint_key IS NULL) = (checkpoint_saved_at IS NULL)",
            name="checkpoint_whole",
        ),
        sa.CheckConstraint(
            "outcome_code IS NULL OR (status IS NOT NULL"
            " AND status IN ('cancelled', 'completed', 'failed'))",
            name="outcome_terminal",
        ),
        sa.CheckConstraint(
            "(suspended_at IS NULL) = (pending_approval_ids IS NULL)"
            " AND (suspended_at IS NULL OR (status IS NOT NULL"
            " AND status NOT IN ('queued', 'running')))",
            name="suspension_whole",
        ),
        sa.CheckConstraint("max_attempts BETWEEN 1 AND 10000", name="max_attempts_range"),
        sqlite_with_rowid=False,
        postgresql_with={"fillfactor": 70},
    )
    for name, columns, where in (
        ("runs_by_created", ["created_at", "run_id"], "deleted_at IS NULL"),
        ("runs_by_status", ["status", "created_at", "run_id"], "status IS NOT NULL"),
        ("runs_by_owner", ["lease_owner", "created_at", "run_id"], "lease_owner IS NOT NULL"),
        ("runs_by_deleted", ["deleted_at"], "deleted_at IS NOT NULL"),
    ):
        condition = sa.text(where)
        op.create_index(name, "runs", columns, sqlite_where=condition, postgresql_where=condition)
    op.create_table(
        "run_labels",
        sa.Column("run_id", exact, primary_key=True),
        sa.Column("label", exact, primary_key=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("run_labels_by_label", "run_labels", ["label", "created_at", "run_id"])
