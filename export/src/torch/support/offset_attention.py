def offset_attention(query, key, value, bias, axis, causal):
    """Softmax attention with one head and a learned number per distance, the last of which stand for all further ones (MEGA)."""
    q, k, v = axis.pad(query), axis.pad(key), axis.pad(value)
    at = torch.arange(q.shape[1], device=q.device)
    reach = len(bias) // 2
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]) + bias[(at - at[:, None]).clamp(-reach, reach) + reach]
    hidden = ~axis.exists[:, None]
    if causal:
        hidden = hidden | (at > at[:, None])
    return axis.pack(scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1) @ v)
