"""The command line: what an operator asks and does, and workers as processes.

It holds no SQL and no rule of its own. It asks ``Insight``, acts through ``DeliveryRepository``
and runs the application's ``Vulkan``; both colours are served.
"""
