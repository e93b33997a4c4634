def checked(tokens, lengths):
    """The lengths as a list, if they fit the tokens."""
    lengths = torch.as_tensor(lengths).tolist()
    if tokens.dim() != 2 or len(lengths) != tokens.shape[0]:
        raise ValueError(f"tokens must be [B, S] and lengths [B], not {list(tokens.shape)} and {len(lengths)} lengths")
    if not lengths or min(lengths) < 1 or max(lengths) > tokens.shape[1]:
        raise ValueError(f"every length must lie between 1 and {tokens.shape[1]}, the width of the tokens")
    return lengths
