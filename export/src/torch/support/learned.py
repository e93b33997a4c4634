def learned(table, *index):
    """Numbers of a learned table of a bias; none outside of it."""
    index = [torch.as_tensor(n, device=table.device) for n in index]
    inside = torch.stack(torch.broadcast_tensors(*[(n >= 0) & (n < size) for n, size in zip(index, table.shape)])).all(0)
    found = table[tuple(n.clamp(0, size - 1) for n, size in zip(index, table.shape))]
    return torch.where(inside, found, torch.nan)
