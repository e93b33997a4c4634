def times(a, b):
    """`a * b` of two shapes. What is added up over an axis of one of them is quiet before."""
    return quiet(torch.mul(*torch.broadcast_tensors(a, b)))
