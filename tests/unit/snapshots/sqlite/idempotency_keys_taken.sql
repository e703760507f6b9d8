SELECT vulkan_idempotency_key."key", vulkan_idempotency_key.message_id
FROM vulkan_idempotency_key
JOIN vulkan_topic ON vulkan_topic.id = vulkan_idempotency_key.topic_id
WHERE vulkan_topic.name = :topic
AND vulkan_idempotency_key."key" IN (__[POSTCOMPILE_key_1])
