// SPDX-License-Identifier: Apache-2.0
//
// read.mjs MODULES FILE -- prints as JSON what apache-arrow reads from an Arrow stream:
// its columns, the rows of each batch, and the values. MODULES is the folder with the npm packages.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, file] = process.argv.slice(2);
const arrow = createRequire(join(modules, "x.js"))("apache-arrow");

// Decimals are arrays of 32-bit words, lowest first, in two's complement.
function decimal(words) {
  let value = 0n;
  for (let i = words.length - 1; i >= 0; i--) {
    value = (value << 32n) | BigInt(words[i]);
  }
  return String(BigInt.asIntN(128, value));
}

function plain(value, type) {
  if (value === null || value === undefined) {
    return null;
  }
  if (arrow.DataType.isDecimal(type)) {
    return decimal(value);
  }
  if (typeof value === "bigint") {
    return String(value);
  }
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
}

const reader = arrow.RecordBatchReader.from(readFileSync(file));
reader.open();
const fields = reader.schema.fields;
const columns = fields.map((field) => ({
  name: field.name,
  type: String(field.type),
  nullable: field.nullable,
  sql_type: field.metadata.get("sql_type") ?? null,
}));
const batches = [];
const rows = [];
for (const batch of reader) {
  batches.push(batch.numRows);
  for (let row = 0; row < batch.numRows; row++) {
    rows.push(fields.map((field, i) => plain(batch.getChildAt(i).get(row), field.type)));
  }
}
console.log(JSON.stringify({ columns, batches, rows }));
