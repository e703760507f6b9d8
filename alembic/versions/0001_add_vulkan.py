"""add vulkan"""

from collections.abc import Sequence

from alembic import op

from vulkan_orm import migrations as vulkan_migrations

revision: str = "0001"
down_revision: str | Sequence[str] | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    vulkan_migrations.upgrade(op, from_version=0, to_version=1)


def downgrade() -> None:
    vulkan_migrations.downgrade(op, from_version=1, to_version=0)
