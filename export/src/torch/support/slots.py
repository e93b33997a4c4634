class Slots(nn.Module):
    """A part of the model: its own parts and parameters, under their names in the spec."""

    def __init__(self, /, **parts):
        super().__init__()
        for name, part in parts.items():
            kind = self._parameters if isinstance(part, nn.Parameter) else self._modules
            kind[name] = part

    def __getitem__(self, name):
        """For names that Python or PyTorch use themselves, as `forward`."""
        return self._modules[name] if name in self._modules else self._parameters[name]
