"""`torch.compile` without a GPU: Inductor's Triton code for CPU memory, launched on the emulator."""
def activate(): pass
def deactivate(): pass
