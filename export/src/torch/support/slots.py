class Slots(nn.Module):
    """A part of the model: its own parts and parameters, under their names in the spec."""

    def __init__(self, /, **parts):
        super().__init__()
        for name, part in parts.items():
            self.hold(name, part)

    def hold(self, name, part):
        """Takes a part under its name, which may be one that Python or PyTorch use themselves, as `forward`."""
        kind = self._parameters if isinstance(part, nn.Parameter) else self._modules
        kind[name] = part

    def __getitem__(self, name):
        """The part of such a name."""
        return self._modules[name] if name in self._modules else self._parameters[name]

    def __setattr__(self, name, value):
        """`training` stays a flag where a part has that name."""
        self.__dict__.update(training=value) if name == "training" else super().__setattr__(name, value)
