"""The repository service: everything that reads or changes deliveries."""

from vulkan_orm.service.operations import Operations


class DeliveryRepository(Operations):
    """Deliveries, inside the caller's session and transaction; it never commits.

    ``apply_outcome`` is the one way by which a run changes a delivery.
    """


__all__ = ["DeliveryRepository"]
