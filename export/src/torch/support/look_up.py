def look_up(table, at):
    """Numbers of a table at places that count all of its numbers; infinite where a place is none."""
    exists = (at >= 0) & (at < table.numel())
    found = table.flatten()[torch.where(exists, at, 0.0).long()].to(at.dtype)
    return torch.where(exists, found, math.inf)
