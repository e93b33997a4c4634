"""Writes the files of this folder with the writers that people use: Python's csv, pandas, datasets (run it in this folder)."""

import csv

import datasets
import pandas as pd
import pyarrow as pa

ROWS = [
    ("a plain text", "one"),
    ('commas, and "marks"', "two"),
    ("two\nlines", "one"),
    ("tabs\tinside", "two"),
    ("naïve – 😀 | \\", "one"),
    (" blanks ", "two"),
    ("42", "one"),
]


def python(name, rows, header, **options):
    with open(name, "w", newline="") as file:
        writer = csv.writer(file, **options)
        writer.writerow(header)
        writer.writerows(rows)


python("python.csv", ROWS, ["text", "label"])
python("python.tsv", ROWS, ["text", "label"], dialect="excel-tab")
swapped = [(label, text) for text, label in ROWS]
python("python_quoted.csv", swapped, ["label", "text"], quoting=csv.QUOTE_ALL, lineterminator="\n")

frame = pd.DataFrame(ROWS, columns=["text", "label"])
frame.to_csv("pandas.csv")
frame.to_csv("pandas.tsv", sep="\t", index=False)
frame.to_csv("pandas_mark.csv", index=False, encoding="utf-8-sig")
frame.to_csv("pandas_packed.csv.gz", index=False)
frame.to_json("pandas.jsonl", orient="records", lines=True)
frame.to_parquet("pandas.parquet")
frame.to_parquet("pandas_zstd.parquet", compression="zstd", index=False)
category = frame.copy()
category["label"] = category["label"].astype("category")
category.to_parquet("pandas_category.parquet")

table = datasets.Dataset.from_pandas(frame)
table.to_csv("datasets.csv")
table.to_json("datasets.jsonl")
table.to_parquet("datasets.parquet")
with pa.CompressedOutputStream("datasets_packed.jsonl.zst", "zstd") as file:
    file.write(open("datasets.jsonl", "rb").read())

tags = datasets.Dataset.from_dict({
    "text": [["the", "cat", "sat"], ["a", "dog"]],
    "label": [["D", "N", "V"], ["D", "N"]],
})
tags.to_json("tags.jsonl")
tags.to_parquet("tags.parquet")
