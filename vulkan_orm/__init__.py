"""Durable messaging inside the database an application already has."""

from vulkan_orm.app import Topic, Vulkan
from vulkan_orm.consumers.meta import MessageMeta
from vulkan_orm.core.outcomes import Delay, Outcome, Terminal
from vulkan_orm.core.policy import RetryPolicy
from vulkan_orm.diagnostics import (
    DatabaseError,
    DecodeError,
    HandlerError,
    PayloadError,
    StaleClaim,
    UsageError,
    VulkanError,
)
from vulkan_orm.service.drafts import Draft
from vulkan_orm.service.repository import DeliveryRepository

__all__ = [
    "DatabaseError",
    "DecodeError",
    "Delay",
    "DeliveryRepository",
    "Draft",
    "HandlerError",
    "MessageMeta",
    "Outcome",
    "PayloadError",
    "RetryPolicy",
    "StaleClaim",
    "Terminal",
    "Topic",
    "UsageError",
    "Vulkan",
    "VulkanError",
]
