#!/usr/bin/env python3
"""bench_quality.py - what a quality costs: python3 tests/bench/bench_quality.py PHOTOS [--out FILE.json]
                                                                                        from the repository's root

Packs a folder of photographs by each codec at several qualities, as `bzna pack` does by default but with frames as large
as the pictures, and prints

  - bytes, PSNR and SSIM of each (bzna pack --report), and how many pictures a second an NVDEC engine decodes of them
  - how many 1, 3, 5 and 7 engines decode, by the pictures' size and quality

Rates of engines are calculated and not measured: 87 us + 4.6 us a kB + 0.076 us a macroblock, which fitted an engine of
an H200 (H.265 and H.264) within 10 %. BUILD: where products are."""
import argparse
import json
import os
import subprocess

BUILD = os.environ.get("BUILD") or "build"
ROWS = [("h265", "--crf", quality) for quality in (16, 18, 20, 22, 24, 26, 28, 30)]
ROWS += [("h264", "--crf", quality) for quality in (20, 24, 28)]
ROWS += [("h264 --tune-decode", "--crf", quality) for quality in (20, 24, 28)]
ROWS += [("h265 --preset slow", "--crf", quality) for quality in (20, 24, 28)]
ROWS += [("h265 --preset slower", "--crf", quality) for quality in (20, 24, 28)]
ROWS += [("jpeg", "--quality", quality) for quality in (80, 85, 90, 95)]
SIZES, QUALITIES, ENGINES = (256, 384, 512), (20, 24, 28), (1, 3, 5, 7)


def pack(photos, folder, codec, option, quality, edge):
    archive, report = folder + "/packed.bzna", folder + "/packed.json"
    subprocess.run([BUILD + "/bzna", "pack", photos, "-o", archive, "--overwrite", "--codec", *codec.split(), option,
                    str(quality), "--max-edge", str(edge), "--report", report,
                    *([] if codec == "jpeg" else ["--frame", "exact", "--thumb", "none"])],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(report) as file:
        told = json.load(file)
    listed = subprocess.run([BUILD + "/bzna", "list", "--json", archive], check=True, stdout=subprocess.PIPE, text=True)
    images = [sample["images"]["bzna_input"] for sample in json.loads(listed.stdout)]
    coded = sum(image["payload_size"] for image in images) / len(images)
    areas = [image["frame_width"] * image["frame_height"] for image in images]
    row = {"codec": codec, "quality": quality, "edge": edge, "bytes": told["bytes"] / told["samples"],
           "psnr": told["psnr"]["mean"], "psnr_5": told["psnr"]["5%"], "ssim": told["ssim"]["mean"],
           "macroblocks": sum(areas) / len(areas) / 256}
    row["microseconds"] = 87 + 4.6 * coded / 1000 + 0.076 * row["macroblocks"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("photos")
    parser.add_argument("--out", default=BUILD + "/bench/quality.json")
    arguments = parser.parse_args()
    folder = os.path.dirname(arguments.out) or "."
    os.makedirs(folder, exist_ok=True)
    told = {"what": "bench_quality.py", "rows": []}

    def measured(*row):
        told["rows"].append(pack(arguments.photos, folder, *row))
        with open(arguments.out, "w") as file:
            json.dump(told, file, indent=1)
        return told["rows"][-1]

    print("| codec | quality | bytes a picture | PSNR, dB | its 5th percentile | SSIM | an engine, pictures/s |\n"
          "|---|---|---|---|---|---|---|")
    for codec, option, quality in ROWS:
        r = measured(codec, option, quality, 512)
        print("| %s | %s %d | %.0f | %.1f | %.1f | %.4f | %s |" % (
            codec, option[2:].upper() if option == "--crf" else option[2:], quality, r["bytes"], r["psnr"], r["psnr_5"],
            r["ssim"], "-" if codec == "jpeg" else "%.0f" % (1e6 / r["microseconds"])), flush=True)
    print("\n| longest edge | CRF | kB a picture | %s |\n|%s" % (
        " | ".join("%d engine%s" % (n, "s" if n > 1 else "") for n in ENGINES), "---|" * (3 + len(ENGINES))))
    for edge in SIZES:
        for quality in QUALITIES:
            r = measured("h265", "--crf", quality, edge)
            print("| %d | %d | %.1f | %s |" % (edge, quality, r["bytes"] / 1000, " | ".join(
                "%.0f" % (n * 1e6 / r["microseconds"]) for n in ENGINES)), flush=True)


if __name__ == "__main__":
    main()
