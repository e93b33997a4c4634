def defined(number, is_defined, text):
    """A number of steps or of choices, which must have a value."""
    if not is_defined:
        raise ValueError(f"`{text}` has no value for some row")
    return number
