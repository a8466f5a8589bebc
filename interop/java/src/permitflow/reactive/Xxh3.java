package permitflow.reactive;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/** XXH3 of 64 bits with a seed, as xxHash's specification describes it. */
final class Xxh3 {
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

  private static final long PRIME32_1 = 0x9E3779B1L;
  private static final long PRIME32_2 = 0x85EBCA77L;
  private static final long PRIME32_3 = 0xC2B2AE3DL;
  private static final long PRIME64_1 = 0x9E3779B185EBCA87L;
  private static final long PRIME64_2 = 0xC2B2AE3D27D4EB4FL;
  private static final long PRIME64_3 = 0x165667B19E3779F9L;
  private static final long PRIME64_4 = 0x85EBCA77C2B2AE63L;
  private static final long PRIME64_5 = 0x27D4EB2F165667C5L;
  private static final long MIX_1 = 0x165667919E3779F9L;
  private static final long MIX_2 = 0x9FB21C651E98DF25L;

  private static final byte[] SECRET =
      bytes(
          "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
              + "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
              + "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
              + "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
              + "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
              + "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e");

  private static final int STRIPE = 64;
  private static final int STRIPES_IN_BLOCK = (SECRET.length - STRIPE) / 8;

  private Xxh3() {}

  /** The hash of the first {@code length} bytes. */
  static long hash(byte[] data, int length, long seed) {
    if (length > 240) {
      return ofMany(data, length, seed);
    }
    if (length > 16) {
      return ofSome(data, length, seed);
    }
    if (length > 8) {
      long low = (read(SECRET, 24) ^ read(SECRET, 32)) + seed ^ read(data, 0);
      long high = (read(SECRET, 40) ^ read(SECRET, 48)) - seed ^ read(data, length - 8);
      return avalanche(length + Long.reverseBytes(low) + high + folded(low, high));
    }
    if (length > 3) {
      long turned = seed ^ Integer.toUnsignedLong(Integer.reverseBytes((int) seed)) << 32;
      long both = word(data, length - 4) | word(data, 0) << 32;
      long value = (read(SECRET, 8) ^ read(SECRET, 16)) - turned ^ both;
      value ^= Long.rotateLeft(value, 49) ^ Long.rotateLeft(value, 24);
      value *= MIX_2;
      value ^= (value >>> 35) + length;
      value *= MIX_2;
      return value ^ value >>> 28;
    }
    if (length > 0) {
      long first = data[0] & 0xff;
      long middle = data[length >> 1] & 0xff;
      long last = data[length - 1] & 0xff;
      long combined = last | (long) length << 8 | first << 16 | middle << 24;
      return avalanche64((word(SECRET, 0) ^ word(SECRET, 4)) + seed ^ combined);
    }
    return avalanche64(seed ^ read(SECRET, 56) ^ read(SECRET, 64));
  }

  private static long ofSome(byte[] data, int length, long seed) {
    long sum = length * PRIME64_1;
    if (length <= 128) {
      for (int round = (length - 1) / 32; round >= 0; round--) {
        sum += mixed(data, round * 16, round * 32, seed);
        sum += mixed(data, length - round * 16 - 16, round * 32 + 16, seed);
      }
      return avalanche(sum);
    }
    for (int chunk = 0; chunk < 8; chunk++) {
      sum += mixed(data, chunk * 16, chunk * 16, seed);
    }
    sum = avalanche(sum);
    for (int chunk = 8; chunk < length / 16; chunk++) {
      sum += mixed(data, chunk * 16, (chunk - 8) * 16 + 3, seed);
    }
    return avalanche(sum + mixed(data, length - 16, 119, seed));
  }

  private static long ofMany(byte[] data, int length, long seed) {
    byte[] secret = SECRET.clone();
    for (int at = 0; at < secret.length; at += 16) {
      LONG.set(secret, at, read(SECRET, at) + seed);
      LONG.set(secret, at + 8, read(SECRET, at + 8) - seed);
    }
    long[] sums = {
      PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1
    };
    int stripes = (length - 1) / STRIPE;
    for (int stripe = 0; stripe < stripes; stripe++) {
      int inBlock = stripe % STRIPES_IN_BLOCK;
      accumulate(sums, data, stripe * STRIPE, secret, inBlock * 8);
      if (inBlock == STRIPES_IN_BLOCK - 1 && (stripe + 1) * STRIPE < length) {
        for (int lane = 0; lane < 8; lane++) {
          long sum = sums[lane];
          sums[lane] = (sum ^ sum >>> 47 ^ read(secret, secret.length - STRIPE + lane * 8)) * PRIME32_1;
        }
      }
    }
    accumulate(sums, data, length - STRIPE, secret, secret.length - STRIPE - 7);
    long merged = length * PRIME64_1;
    for (int pair = 0; pair < 4; pair++) {
      long first = sums[2 * pair] ^ read(secret, 11 + 16 * pair);
      merged += folded(first, sums[2 * pair + 1] ^ read(secret, 19 + 16 * pair));
    }
    return avalanche(merged);
  }

  private static void accumulate(long[] sums, byte[] data, int at, byte[] secret, int secretAt) {
    for (int lane = 0; lane < 8; lane++) {
      long value = read(data, at + lane * 8);
      long keyed = value ^ read(secret, secretAt + lane * 8);
      sums[lane ^ 1] += value;
      sums[lane] += (keyed & 0xffffffffL) * (keyed >>> 32);
    }
  }

  private static long mixed(byte[] data, int at, int secretAt, long seed) {
    return folded(
        read(data, at) ^ read(SECRET, secretAt) + seed,
        read(data, at + 8) ^ read(SECRET, secretAt + 8) - seed);
  }

  /** Both halves of the unsigned product, one xor the other. */
  private static long folded(long first, long second) {
    long high = Math.multiplyHigh(first, second) + (first >> 63 & second) + (second >> 63 & first);
    return first * second ^ high;
  }

  private static long avalanche(long value) {
    value ^= value >>> 37;
    value *= MIX_1;
    return value ^ value >>> 32;
  }

  private static long avalanche64(long value) {
    value ^= value >>> 33;
    value *= PRIME64_2;
    value ^= value >>> 29;
    value *= PRIME64_3;
    return value ^ value >>> 32;
  }

  private static long read(byte[] from, int at) {
    return (long) LONG.get(from, at);
  }

  private static long word(byte[] from, int at) {
    return Integer.toUnsignedLong((int) INT.get(from, at));
  }

  private static byte[] bytes(String hexadecimal) {
    byte[] made = new byte[hexadecimal.length() / 2];
    for (int at = 0; at < made.length; at++) {
      made[at] = (byte) Integer.parseInt(hexadecimal.substring(2 * at, 2 * at + 2), 16);
    }
    return made;
  }
}
