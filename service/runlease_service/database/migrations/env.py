"""Alembic's entry: run the migrations on the connection that `upgrade` was given."""

from __future__ import annotations

from alembic import context

from runlease_service.database.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
