def mixed(z):
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def fixed_bits(level, chunk, slot):
    """The 64 bits with which a beam is drawn in evaluation: those of rtc's generator, a function of the place alone."""
    golden = 0x9E3779B97F4A7C15

    def below(key, index):
        return mixed((key << 17 | key >> 47) % 2**64 ^ mixed((index + golden) % 2**64))

    def named(key, name):
        code = 0xCBF29CE484222325
        for byte in name.encode():
            code = (code ^ byte) * 0x100000001B3 % 2**64
        return below(key, code)

    key = named(below(below(named(mixed(golden), "beams"), level), chunk), "align")
    return mixed((key + slot * golden) % 2**64)
